package decorator

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestStatus follows one resource through a good read, one that waits, and one that
// fails.
func TestStatus(t *testing.T) {
	bubble(t, setup{cfg: Config{ZeroVersion: ZeroBounded, MaxStaleness: time.Second, CachedGets: true}}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s := r.backend.Status()
		want := PolicyStatus{ZeroVersion: ZeroBounded, MaxStalenessSeconds: 1, OnUnverified: UnverifiedFail, MaxWaitSeconds: 3, ReadyWaitSeconds: .2, CachedGets: true}
		if s.Policy != want || s.Mode != ModeVerify || s.Strategy.Name != StrategyRequest || s.Source != "freshness.SourceFunc" {
			t.Errorf("got %+v", s)
		}
		if s.Floor == nil || s.Floor.Revision != r.applied() || s.Floor.AgeSeconds < 2 || s.FloorReads == 0 || s.FloorReadsFailed != 0 || s.BatchSize != 1 {
			t.Errorf("got floor %+v, %d reads, %d failed, batch %d", s.Floor, s.FloorReads, s.FloorReadsFailed, s.BatchSize)
		}
		p := s.Resources[0]
		if p.Resource != "pods" || p.Prefix != "/pods/" || !p.Feed || !p.Ready || p.Floor != r.applied() || p.Lag != 0 || p.Reads["ok"] != 1 ||
			p.LastFresh == nil || time.Since(*p.LastFresh).Round(time.Second) != 2*time.Second {
			t.Errorf("got %+v", p)
		}

		r.cached.Hold()
		newest := r.put("a")
		done := make(chan error)
		go func() { _, err := list(t.Context(), r.store, everything("")); done <- err }()
		settled()
		p = r.backend.Status().Resources[0]
		if p.Floor != newest || p.Applied >= newest || p.Lag != newest-p.Applied || p.Waiters != 1 || p.Kicks == 0 {
			t.Errorf("while a read waits: %+v", p)
		}
		time.Sleep(time.Second)
		r.cached.Release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.failFloors(errors.New("no quorum"))
		if _, err := list(t.Context(), r.store, everything("")); err == nil {
			t.Fatal("a list without a floor was answered")
		}
		s = r.backend.Status()
		p = s.Resources[0]
		if p.Waiters != 0 || p.Lag != 0 || p.Reads["ok"] != 2 || p.Reads["no_floor"] != 1 || p.LastError == nil || p.LastError.Time.IsZero() {
			t.Errorf("after a failure: %+v", p)
		}
		if s.FloorReadsFailed == 0 || s.LastFloorError == nil || s.Rewound != "" {
			t.Errorf("after a failure: %+v", s)
		}
		longest, callers := 0.0, uint64(0)
		for _, i := range s.History {
			longest = max(longest, i.MaxWaitSeconds)
			callers += i.Callers
		}
		if longest < 1 || longest > 2 || callers < 3 {
			t.Errorf("the longest wait is %v s, want that of 1 s; %d callers, want 3 and more", longest, callers)
		}
	})
}

// TestCheck: a floor that cannot be read is not ready, until one can; a rewind is for
// good.
func TestCheck(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		reads := r.floorReads()
		if err := r.backend.Check(t.Context()); err != nil || r.floorReads() != reads {
			t.Errorf("got %v and %d reads, want none: it is good, and costs nothing", err, r.floorReads()-reads)
		}
		r.failFloors(errors.New("no quorum"))
		if _, err := list(t.Context(), r.store, everything("")); err == nil {
			t.Fatal("a list without a floor was answered")
		}
		if err := r.backend.Check(t.Context()); err == nil {
			t.Error("no floor can be read, and Check is nil")
		}
		r.writer.OnRevision(nil)
		if err := r.backend.Check(t.Context()); err != nil {
			t.Errorf("the backend is back, and nobody asked it yet: %v", err)
		}
		r.put("a")
		settled()
		r.restore()
		_, _ = list(t.Context(), r.store, everything(""))
		if _, ok := errors.AsType[*RewoundError](r.backend.Check(t.Context())); !ok {
			t.Error("a rewind was not told")
		}
		if s := r.backend.Status(); s.Rewinds != 1 || s.Rewound == "" {
			t.Errorf("%d rewinds, %q", s.Rewinds, s.Rewound)
		}
	})
}

// TestStatusIsSorted, whatever the order in which resources come.
func TestStatusIsSorted(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		for _, gr := range []schema.GroupResource{{Group: "z", Resource: "a"}, {Group: "b", Resource: "y"}, {Group: "b", Resource: "x"}} {
			if _, err := r.backend.Wrap(r.inner, Resource{GroupResource: gr, Prefix: "/pods/", NewList: newPodList}); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		for _, s := range r.backend.Status().Resources {
			got += s.Group + "/" + s.Resource + " "
		}
		if want := "/pods b/x b/y z/a "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
