package server_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// ticketPrefix is where the server keeps tickets in etcd.
const ticketPrefix = "/demo.rvfloor.dev/demo.rvfloor.dev/tickets/"

// TestListAfterASharedLeaseEnds has many tickets share a lease, ends the lease
// (one revision removes them all), and lists at once: all of them are gone, or
// the answer is of before. Stock takes the revision for reached with the first
// of the removals that it hears of, and lists the others.
func TestListAfterASharedLeaseEnds(t *testing.T) {
	const rounds, share = 4, 100
	leftovers := map[bool]int{}
	for _, stock := range []bool{false, true} {
		c := start(t, server.Options{Stock: stock})
		etcd, err := clientv3.New(clientv3.Config{Endpoints: c.EtcdServers, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer etcd.Close()
		c.must(t, 201, post(tickets, object("Ticket", "forever", "", `{}`)))

		for round := range rounds {
			// A longer life than in the round before needs a lease of its own.
			lease := createTickets(t, c, etcd, share, 1000*(round+1))
			revoked, err := etcdlab.RevokeLease(t.Context(), etcd, lease)
			if err != nil {
				t.Fatal(err)
			}
			query := []string{"", "?resourceVersion=0"}[round%2]
			if stock {
				query = "" // at 0 it promises nothing
			}
			list := c.must(t, 200, request{Method: "GET", Path: tickets + query})
			rv, err := strconv.ParseInt(list.version(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if rv < revoked {
				t.Errorf("stock %v: a list after the lease ended at revision %d is of revision %d", stock, revoked, rv)
			}
			if left := len(list.names()) - 1; left != 0 {
				leftovers[stock] += left
			}
		}
	}
	if leftovers[false] != 0 {
		t.Errorf("%d tickets were listed after they had ended", leftovers[false])
	}
	t.Logf("stock listed %d tickets after they had ended, of %d", leftovers[true], rounds*share)
}

// TestTicketEnds waits for a ticket's time to be over, and sees that an update
// of another one gave it a longer time.
func TestTicketEnds(t *testing.T) {
	c := start(t, server.Options{})
	c.must(t, 201, post(tickets, object("Ticket", "renewed", "", `{"ttlSeconds":1}`)))
	c.must(t, 200, request{Method: "PATCH", Path: tickets + "/renewed", Type: "application/merge-patch+json", Body: `{"spec":{"ttlSeconds":3600}}`})
	c.must(t, 201, post(tickets, object("Ticket", "short", "", `{"ttlSeconds":1}`)))
	s, a, err := c.watch(t.Context(), tickets+"?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dshort")
	if err != nil || s == nil {
		t.Fatalf("watch: %v, %v", a, err)
	}
	defer s.close()
	events, err := s.next(2)
	if err != nil {
		t.Fatal(err)
	}
	if events[0].Type != "ADDED" || events[1].Type != "DELETED" {
		t.Errorf("got %s and %s, want ADDED and DELETED", events[0].Type, events[1].Type)
	}
	if got := c.must(t, 200, request{Method: "GET", Path: tickets}).names(); !equal(got, []string{"renewed"}) {
		t.Errorf("left are %v", got)
	}
}

// createTickets creates n tickets with one time to live and returns the one
// lease that they all have.
func createTickets(t *testing.T, c *caller, etcd *clientv3.Client, n, ttl int) clientv3.LeaseID {
	t.Helper()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			name := fmt.Sprintf("t%d-%03d", ttl, i)
			a, err := c.do(t.Context(), post(tickets, object("Ticket", name, "", fmt.Sprintf(`{"ttlSeconds":%d}`, ttl))))
			if err != nil || a.Code != 201 {
				t.Errorf("create %s: %d, %v", name, a.Code, err)
			}
		})
	}
	wg.Wait()
	res, err := etcd.Get(t.Context(), ticketPrefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	leases := map[clientv3.LeaseID]int{}
	for _, kv := range res.Kvs {
		leases[clientv3.LeaseID(kv.Lease)]++
	}
	if len(leases) != 2 || leases[clientv3.NoLease] != 1 {
		t.Fatalf("%d tickets have the leases %v, want one lease, and none on the one that stays", n, leases)
	}
	delete(leases, clientv3.NoLease)
	for lease, count := range leases {
		if count != n {
			t.Fatalf("%d of %d tickets are in etcd", count, n)
		}
		return lease
	}
	panic("unreachable")
}
