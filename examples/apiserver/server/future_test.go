package server_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// future is a revision that these servers never reach.
const future = "1000000"

// TestFutureVersionFailsAtOnce asks for a revision that does not exist yet.
// Stock waits for it for 3 s and then says that it is too large; rvfloor reads
// how far the backend is and says the same, in the same words, at once.
func TestFutureVersionFailsAtOnce(t *testing.T) {
	ours, stock := start(t, server.Options{}), start(t, server.Options{Stock: true})
	for _, c := range []*caller{ours, stock} {
		c.must(t, 201, post(widgets, object("Widget", "a", "", `{}`)))
		c.must(t, 200, request{Method: "GET", Path: widgets})
	}
	for name, path := range map[string]string{
		"list":               widgets + "?resourceVersion=" + future,
		"list, NotOlderThan": widgets + "?resourceVersionMatch=NotOlderThan&resourceVersion=" + future,
		"get":                widgets + "/a?resourceVersion=" + future,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // stock's three seconds at once
			type result struct {
				a   answer
				err error
			}
			waiting := make(chan result, 1)
			go func() {
				a, err := stock.do(t.Context(), request{Method: "GET", Path: path})
				waiting <- result{a, err}
			}()
			// One after the other, all while stock waits for the one it was asked first.
			ourAnswer := ours.must(t, 504, request{Method: "GET", Path: path})
			for range 4 {
				ours.must(t, 504, request{Method: "GET", Path: path})
			}
			select {
			case <-waiting:
				t.Error("stock answered once before rvfloor did five times")
			default:
			}
			stocks := <-waiting
			if stocks.err != nil {
				t.Fatal(stocks.err)
			}
			n := normalizer{uids: map[string]string{}}
			if diff := cmp.Diff(n.rewrite("", stocks.a.Body), n.rewrite("", ourAnswer.Body)); diff != "" {
				t.Errorf("- stock, + ours\n%s", diff)
			}
			if got, want := ourAnswer.Header.Get("Retry-After"), stocks.a.Header.Get("Retry-After"); got != want {
				t.Errorf("Retry-After %q, stock %q", got, want)
			}
			cause, _ := at(ourAnswer.Body, "details", "causes").([]any)
			if len(cause) != 1 || text(cause[0], "reason") != "ResourceVersionTooLarge" {
				t.Errorf("no client could tell why: %v", ourAnswer.Body)
			}
		})
	}
}

// TestFutureWatchFails opens a watch at a revision that does not exist yet.
// Stock accepts it and drops what happens before that revision; rvfloor refuses.
func TestFutureWatchFails(t *testing.T) {
	ours := start(t, server.Options{})
	ours.must(t, 201, post(widgets, object("Widget", "a", "", `{}`)))
	s, a, err := ours.watch(t.Context(), widgets+"?watch=true&resourceVersion="+future)
	if err != nil {
		t.Fatal(err)
	}
	status := a.Body
	if s != nil { // errors of a watch come as its only event
		defer s.close()
		events, err := s.next(1)
		if err != nil {
			t.Fatal(err)
		}
		if events[0].Type != "ERROR" {
			t.Fatalf("got %v, want an ERROR event", events[0])
		}
		status = events[0].Object
	}
	if text(status, "kind") != "Status" || at(status, "code") != 504.0 {
		t.Errorf("got %v, want a Status with code 504", status)
	}
}
