package decorator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
	"github.com/rvfloor/rvfloor/progress"
)

// tenanted is a pod of a tenant. All tenants may have one of the same namespace and name.
func tenanted(tenant, name string, uid types.UID) *example.Pod {
	p := pod("ns", name)
	p.UID, p.Labels = uid, map[string]string{"tenant": tenant}
	return p
}

// tenantKey is the KeyFunc of a cache over many tenants.
func tenantKey(obj runtime.Object) (string, error) {
	p, ok := obj.(*example.Pod)
	if !ok {
		return "", fmt.Errorf("%T is no pod", obj)
	}
	return "/pods/" + p.Labels["tenant"] + "/" + p.Namespace + "/" + p.Name, nil
}

// play is a storage whose watches deliver what a test says, in the order that it says.
type play struct {
	storage.Interface // of a storage in memory, for the rest
	tapped            bool

	mu       sync.Mutex
	revision uint64
	state    []*example.Pod
	present  *scripted
	newest   []watch.Event // of revision, as a watch from below brings them
	part     int           // of these the next watch brings
}

// scripted is one watch.
type scripted struct {
	result chan watch.Event
	tap    progress.Tap // nil: none
	halt   sync.Once
}

func (w *scripted) ResultChan() <-chan watch.Event { return w.result }
func (w *scripted) Stop()                          { w.halt.Do(func() { close(w.result) }) }

func (s *play) Watch(ctx context.Context, _ string, opts storage.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &scripted{result: make(chan watch.Event, 100)}
	if tap, ok := progress.TapFrom(ctx); ok && s.tapped {
		w.tap = tap
	}
	s.present = w
	if opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		for _, p := range s.state {
			w.result <- watch.Event{Type: watch.Added, Object: p.DeepCopy()}
		}
		end := newBookmark(func() object { return &example.Pod{} }, s.revision)
		if err := storage.AnnotateInitialEventsEndBookmark(end.Object); err != nil {
			return nil, err
		}
		w.result <- end
	}
	if w.tap != nil {
		w.tap.Opened(s.RequestWatchProgress)
	}
	if from := must(s.Versioner().ParseResourceVersion(opts.ResourceVersion)); from > 0 && from < s.revision {
		s.bringLocked(s.newest, s.part)
		s.part = len(s.newest)
	}
	return w, nil
}

// bringLocked delivers the first events of the newest revision.
func (s *play) bringLocked(events []watch.Event, n int) {
	if w := s.present; w.tap != nil && n > 0 {
		w.tap.Revision(s.revision, len(events))
	}
	for _, event := range events[:n] {
		s.present.result <- watch.Event{Type: event.Type, Object: &recorded{Pod: event.Object.DeepCopyObject().(*example.Pod), at: time.Now()}}
	}
}

// commit makes one revision of events, of which the present watch brings the first n, in that
// order. What is opened later brings them in the order of again: the next watch the first part,
// all others all.
func (s *play) commit(events, again []watch.Event, n, part int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	for _, event := range events {
		event.Object.(*example.Pod).ResourceVersion = formatRevision(s.revision)
	}
	s.newest, s.part = again, part
	s.bringLocked(events, n)
}

func (s *play) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present.Stop()
}

func (s *play) GetCurrentResourceVersion(context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision, nil
}

func (s *play) RequestWatchProgress(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present.tap != nil && s.present.tap.Progress(s.revision) {
		return nil
	}
	s.present.result <- newBookmark(func() object { return &example.Pod{} }, s.revision)
	return nil
}

// recorded is a pod as a storage hands it to a watch that asks for times: each time another.
type recorded struct {
	*example.Pod
	at time.Time
}

func (r *recorded) RecordTime() time.Time          { return r.at }
func (r *recorded) Unwrap() runtime.Object         { return r.Pod }
func (r *recorded) DeepCopyObject() runtime.Object { return &recorded{Pod: r.Pod.DeepCopy(), at: r.at} }

// tenants is a Store over upstream's cache of many tenants over a play.
type tenants struct {
	*play
	store  *Store
	client watch.Interface
}

func newTenants(t *testing.T, s *play, keyFunc func(runtime.Object) (string, error)) *tenants {
	t.Helper()
	memory := memstorage.NewBackend()
	s.Interface = must(memstorage.New(memory, memstorage.Config{Prefix: "/pods/", New: newPod}))
	s.revision = 1
	b, err := NewBackend(Config{Source: freshness.SourceFunc(s.GetCurrentResourceVersion), Pulse: -1})
	if err != nil {
		t.Fatal(err)
	}
	r := Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList, KeyFunc: keyFunc}
	if r.Feed, err = b.Feed(s, r); err != nil {
		t.Fatal(err)
	}
	cfg := cacherConfig("/pods/", r.Feed)
	cfg.KeyFunc = tenantKey
	c, err := cacher.NewCacherFromConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := cacher.NewCacheDelegator(c, s)
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := &tenants{play: s}
	if a.store, err = b.Wrap(d, r); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if a.client, err = a.store.Watch(t.Context(), "/pods/", everything("1")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.client.Stop()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		d.Stop()
		c.Stop()
		memory.Close()
		time.Sleep(cacherTimers)
	})
	return a
}

// long names an object and what became of it.
func long(event watch.Event) string {
	object := event.Object
	if cached, ok := object.(runtime.CacheableObject); ok {
		object = cached.GetObject()
	}
	p := object.(*example.Pod)
	return fmt.Sprintf("%s %s/%s %q", event.Type, p.Labels["tenant"], p.Name, p.UID)
}

// wantAll: the client's watch brings each of the events once, and a LIST shows what is left.
func (a *tenants) wantAll(t *testing.T, what string, events []watch.Event, left state) {
	t.Helper()
	list, err := list(t.Context(), a.store, everything(""))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := state{}
	for _, p := range list.Items {
		got[must(tenantKey(&p))] = string(p.UID) + "@" + p.ResourceVersion
	}
	if !maps.Equal(got, left) {
		t.Errorf("%s: a LIST shows %v, want %v", what, got, left)
	}
	var want, brought []string
	for _, event := range events {
		want = append(want, long(event))
	}
	for _, event := range received(a.client) {
		brought = append(brought, long(event))
	}
	slices.Sort(want)
	slices.Sort(brought)
	if !slices.Equal(brought, want) {
		t.Errorf("%s: a watch brings %q, want %q", what, brought, want)
	}
}

func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, rest := range permutations(n - 1) {
		for i := range n {
			all = append(all, slices.Insert(slices.Clone(rest), i, n-1))
		}
	}
	return all
}

// TestObjectsOfOneName: objects of one namespace and name under different keys change at one
// revision, and the cache's watch breaks in the middle of it, twice. It begins anew below the
// revision, whose events come in whatever order: each reaches the cache once.
func TestObjectsOfOneName(t *testing.T) {
	keyFuncs := map[string]func(runtime.Object) (string, error){
		"without a KeyFunc": nil,
		"with a KeyFunc":    tenantKey,
		"with one that fails": func(runtime.Object) (string, error) {
			return "/pods/ns/x", errors.New("no key")
		},
		"with one that fails at times": func() func(runtime.Object) (string, error) {
			calls := 0
			return func(obj runtime.Object) (string, error) {
				if calls++; calls%3 == 0 {
					return "", errors.New("no key")
				}
				return tenantKey(obj)
			}
		}(),
		"with one that panics": func(runtime.Object) (string, error) { panic("no key") },
	}
	uids := map[string]func(tenant string) types.UID{
		"UIDs":       func(tenant string) types.UID { return types.UID("of " + tenant) },
		"equal UIDs": func(string) types.UID { return "equal" },
		"no UIDs":    func(string) types.UID { return "" },
	}
	for keys, keyFunc := range keyFuncs {
		for ids, uid := range uids {
			for kind, tapped := range map[string]bool{"tapped": true, "untapped": false} {
				t.Run(keys+"/"+ids+"/"+kind, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						a := newTenants(t, &play{tapped: tapped}, keyFunc)
						for i, order := range permutations(3) {
							for _, again := range permutations(3) {
								for n := range 4 {
									a.round(t, uid, order, again, n, (i+n)%4)
								}
							}
						}
					})
				})
			}
		}
	}
}

// round creates an object of each of three tenants, and deletes two and changes one of them.
func (a *tenants) round(t *testing.T, uid func(string) types.UID, order, again []int, n, part int) {
	t.Helper()
	what := fmt.Sprintf("%v, cut after %d, again %v, cut after %d", order, n, again, part)
	var created []watch.Event
	left := state{}
	for _, tenant := range []string{"a", "b", "c"} {
		p := tenanted(tenant, "x", uid(tenant))
		created = append(created, watch.Event{Type: watch.Added, Object: p})
	}
	a.commit(created, created, 3, 3)
	for _, event := range created {
		p := event.Object.(*example.Pod)
		left[must(tenantKey(p))] = string(p.UID) + "@" + p.ResourceVersion
	}
	a.wantAll(t, what+", created", created, left)

	changes := []watch.Event{
		{Type: watch.Deleted, Object: created[0].Object.DeepCopyObject()},
		{Type: watch.Deleted, Object: created[1].Object.DeepCopyObject()},
		{Type: watch.Modified, Object: created[2].Object.DeepCopyObject()},
	}
	arranged := func(order []int) (events []watch.Event) {
		for _, i := range order {
			events = append(events, changes[i])
		}
		return events
	}
	a.commit(arranged(order), arranged(again), n, part)
	for range 2 {
		settled()
		a.cut()
		time.Sleep(time.Minute) // the cache watches anew
	}
	a.wantAll(t, what, changes, state{"/pods/c/ns/x": string(uid("c")) + "@" + formatRevision(a.revision)})

	gone := []watch.Event{{Type: watch.Deleted, Object: created[2].Object.DeepCopyObject()}}
	a.commit(gone, gone, 1, 1)
	a.wantAll(t, what+", gone", gone, state{})
}

// TestRepeats: each event that was taken is one repeat, also of objects that nothing tells
// apart, and only of its own kind.
func TestRepeats(t *testing.T) {
	added := watch.Event{Type: watch.Added, Object: tenanted("a", "x", "")}
	deleted := watch.Event{Type: watch.Deleted, Object: tenanted("a", "x", "")}
	for name, keyFunc := range map[string]func(runtime.Object) (string, error){"with a KeyFunc": tenantKey, "without": nil} {
		r := newRepeats(&Resource{KeyFunc: keyFunc}, []watch.Event{added})
		var got []bool
		for range 2 {
			event := watch.Event{Type: watch.Added, Object: added.Object.DeepCopyObject()}
			got = append(got, r.strike(event, event.Object.(*example.Pod)))
		}
		if !slices.Equal(got, []bool{true, false}) {
			t.Errorf("%s: one event that was taken and comes twice is a repeat: %v", name, got)
		}
	}
	r := newRepeats(&Resource{}, []watch.Event{added})
	if r.strike(deleted, deleted.Object.(*example.Pod)) {
		t.Error("a deletion is taken for the repeat of a creation")
	}
}

// TestRepeatsAreOfOneRevision: what the cache took of a revision, and no watch brings again,
// hides nothing of a later one.
func TestRepeatsAreOfOneRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTenants(t, &play{tapped: true}, tenantKey)
		created := []watch.Event{
			{Type: watch.Added, Object: tenanted("a", "x", "")},
			{Type: watch.Added, Object: tenanted("b", "x", "")},
		}
		a.commit(created, created, 1, 0)
		settled()
		a.cut()
		time.Sleep(time.Minute)
		changed := []watch.Event{{Type: watch.Modified, Object: created[0].Object.DeepCopyObject()}}
		a.commit(changed, changed, 1, 1)
		a.wantAll(t, "changed", []watch.Event{created[0], changed[0]}, state{"/pods/a/ns/x": "@" + formatRevision(a.revision)})
	})
}
