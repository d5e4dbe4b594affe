package server_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// transcript is what one server answered to a script, step by step.
type transcript struct {
	t     *testing.T
	to    *caller
	steps []step
}

type step struct {
	Name   string
	Code   int
	Retry  string // the header Retry-After
	Warn   string // the header Warning
	Type   string // the header Content-Type
	Answer any    // an object, a list, a Status, or the events of a watch
}

func (tr *transcript) add(name string, a answer, body any) {
	tr.steps = append(tr.steps, step{
		Name:   name,
		Code:   a.Code,
		Retry:  a.Header.Get("Retry-After"),
		Warn:   a.Header.Get("Warning"),
		Type:   a.Header.Get("Content-Type"),
		Answer: body,
	})
}

// do sends r and writes the answer down. It runs on a goroutine of its own, so
// it may not end the test: after an error it goes on with an empty answer.
func (tr *transcript) do(name string, r request) answer {
	a, err := tr.to.do(tr.t.Context(), r)
	if err != nil {
		tr.t.Errorf("%s: %v", name, err)
	}
	tr.add(name, a, a.Body)
	return a
}

func (tr *transcript) get(name, path string) answer {
	return tr.do(name, request{Method: "GET", Path: path})
}

// watch writes down the first n events of a watch, and after each of the later
// acts (which write something) one event more.
func (tr *transcript) watch(name, path string, n int, acts ...func()) {
	s, a, err := tr.to.watch(tr.t.Context(), path)
	if err != nil {
		tr.t.Errorf("%s: %v", name, err)
		return
	}
	if s == nil {
		tr.add(name, a, a.Body)
		return
	}
	defer s.close()
	events, err := s.next(n)
	for _, act := range acts {
		if err != nil {
			break
		}
		act()
		var more []event
		more, err = s.next(1)
		events = append(events, more...)
	}
	if err != nil {
		tr.t.Errorf("%s: %v", name, err)
	}
	var body []any
	for _, e := range events {
		body = append(body, map[string]any{"type": e.Type, "object": e.Object})
	}
	tr.add(name, a, body)
}

// saw fails unless the watch before gave these events: a type and a name each.
func (tr *transcript) saw(want ...string) {
	tr.t.Helper()
	var got []string
	last := tr.steps[len(tr.steps)-1]
	events, _ := last.Answer.([]any)
	for _, e := range events {
		got = append(got, text(e, "type")+" "+text(e, "object", "metadata", "name"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tr.t.Errorf("%s at %s: events, - want, + got\n%s", last.Name, tr.to.URL, diff)
	}
}

// normalized takes out of the steps what differs between two servers that
// behave the same: uids become the order in which they were first seen, times
// become a word, and a resourceVersion becomes the number of versions of objects
// seen in the transcript that are not above it. So two resourceVersions compare
// as they do on their server, whatever else was written to its etcd.
func (tr *transcript) normalized() []step {
	n := normalizer{uids: map[string]string{}}
	for _, s := range tr.steps {
		n.collect(s.Answer)
	}
	slices.Sort(n.versions)
	n.versions = slices.Compact(n.versions)
	out := slices.Clone(tr.steps)
	for i := range out {
		out[i].Answer = n.rewrite("", out[i].Answer)
	}
	return out
}

type normalizer struct {
	uids     map[string]string
	versions []uint64 // of objects
}

// collect notes the resourceVersion of everything that has a uid.
func (n *normalizer) collect(v any) {
	switch v := v.(type) {
	case map[string]any:
		if rv, ok := v["resourceVersion"].(string); ok && v["uid"] != nil {
			if parsed, err := strconv.ParseUint(rv, 10, 64); err == nil {
				n.versions = append(n.versions, parsed)
			}
		}
		for _, child := range v {
			n.collect(child)
		}
	case []any:
		for _, child := range v {
			n.collect(child)
		}
	}
}

var (
	current = regexp.MustCompile(`current: \d+`)
	age     = regexp.MustCompile(`^\d+s$`) // in the cells of tables
	uuid    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

func (n *normalizer) rewrite(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) { // in order, for uids are numbered as they come
			out[k] = n.rewrite(k, v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = n.rewrite("", v[i])
		}
		if key == "managedFields" {
			// Upstream sorts them by time, in seconds: two writes come in this or that
			// order as the clock's second falls between them or not.
			slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		return out
	case string:
		return n.rewriteString(key, v)
	}
	return v
}

func (n *normalizer) rewriteString(key, s string) string {
	switch key {
	case "uid":
		if n.uids[s] == "" {
			n.uids[s] = fmt.Sprintf("uid %d", len(n.uids)+1)
		}
		return n.uids[s]
	case "resourceVersion":
		if s == "" {
			return s
		}
		rv, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return "no number: " + s
		}
		above, found := slices.BinarySearch(n.versions, rv)
		if found {
			above++
		}
		return fmt.Sprintf("version %d", above)
	case "continue": // holds a revision
		return "a token"
	case "message":
		return uuid.ReplaceAllString(current.ReplaceAllString(s, "current: N"), "a uid")
	}
	if _, err := time.Parse(time.RFC3339, s); err == nil || age.MatchString(s) {
		return "a time"
	}
	return s
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
