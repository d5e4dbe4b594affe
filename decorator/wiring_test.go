package decorator

import (
	"context"
	"errors"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// handmade is a rig that is wired by hand, and wrong: its Resource has this prefix, its cache
// watches what over returns, and has "/pods/".
type handmade struct {
	prefix   string
	feedless bool
	rawless  bool
	over     func(r *rig, raw storage.Interface) storage.Interface // nil: the Feed
	raw      func(storage.Interface) storage.Interface             // around the raw storage; nil: nothing
	tapped   bool
}

// wire runs f in virtual time with a cache that is filled with pod a.
func (h handmade) wire(t *testing.T, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, memory: memstorage.NewBackend()}
		r.cached, r.writer = r.storage(h.tapped), r.storage(false)
		r.put("a")
		var err error
		r.backend, err = NewBackend(Config{Source: freshness.SourceFunc(r.writer.GetCurrentResourceVersion), Pulse: -1, Registerer: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		var raw storage.Interface = r.cached
		if h.raw != nil {
			raw = h.raw(raw)
		}
		res := Resource{GroupResource: pods, Prefix: h.prefix, NewList: newPodList, Raw: raw}
		watched := raw
		if !h.feedless {
			if r.feed, err = r.backend.Feed(raw, res); err != nil {
				t.Fatal(err)
			}
			res.Feed, watched = r.feed, r.feed
		}
		if h.over != nil {
			watched = h.over(r, raw)
		}
		r.cacher, r.inner = newCache(t, "/pods/", watched, raw)
		if h.rawless {
			res.Raw = nil
		}
		if r.store, err = r.backend.Wrap(r.inner, res); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			r.cached.Release()
			if err := r.backend.Close(); err != nil {
				t.Error(err)
			}
		})
		r.settle()
		f(t, r)
	})
}

func rawOf(_ *rig, raw storage.Interface) storage.Interface { return raw }

// wiredWrong shows only when it is used.
var wiredWrong = map[string]struct {
	handmade
	hint string
}{
	"the cache watches the storage":              {handmade{prefix: "/pods/", over: rawOf}, "pass the Feed as Storage"},
	"the Feed's prefix is that of another cache": {handmade{prefix: "/po"}, "Resource.Prefix as its ResourcePrefix"},
	"the storage's prefix in front":              {handmade{prefix: "/registry/pods/"}, "Resource.Prefix is no prefix of"},
	"the same without a Feed":                    {handmade{prefix: "/registry/pods/", feedless: true}, "Resource.Prefix is no prefix of"},
	"too short a prefix without a Feed":          {handmade{prefix: "/po", feedless: true}, "refuses a key under Resource.Prefix"},
	"etcd without a Watcher":                     {handmade{prefix: "/pods/", raw: overGRPC}, "progress.NewWatcher(client)"},
}

// TestWiredWrong: it is told of once, and nothing stale is answered.
func TestWiredWrong(t *testing.T) {
	for name, test := range wiredWrong {
		for _, rawless := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", no Raw"}[rawless], func(t *testing.T) {
				test.rawless = rawless
				test.wire(t, func(t *testing.T, r *rig) {
					r.cached.Hold() // what the cache has now is all it gets
					r.put("b")
					for _, version := range []string{"", "0", "3"} {
						pods, err := list(t.Context(), r.store, everything(version))
						if rawless {
							// What the cache itself refuses stands.
							if !storage.IsTooLargeResourceVersion(err) && (!errors.Is(err, ErrNotFresh) || !strings.Contains(err.Error(), test.hint)) {
								t.Errorf("LIST at %q: %v", version, err)
							}
							if len(pods.Items) > 0 {
								t.Errorf("LIST at %q failed and answered %v", version, names(pods))
							}
							continue
						}
						if err != nil || !slices.Equal(names(pods), []string{"a", "b"}) {
							t.Errorf("LIST at %q: %v, %v", version, names(pods), err)
						}
					}
					got := &example.Pod{}
					if err := r.store.Get(t.Context(), "/pods/ns/b", storage.GetOptions{ResourceVersion: "0"}, got); (err == nil) == rawless {
						t.Errorf("GET at 0: %v", err)
					}
					if w, err := r.store.Watch(t.Context(), "/pods/", everything("0")); !errors.Is(err, ErrNotFresh) {
						t.Errorf("WATCH at 0: %v", err)
						w.Stop()
					}
					if n := r.breaches(); n != 1 {
						t.Errorf("%v breaches were told of", n)
					}
				})
			})
		}
	}
}

// overGRPC is a storage whose watches make gRPC calls of their contexts, and which tells no Tap.
func overGRPC(raw storage.Interface) storage.Interface { return grpcStorage{raw} }

type grpcStorage struct{ storage.Interface }

func (s grpcStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	_, _ = metadata.FromOutgoingContext(ctx)
	return s.Interface.Watch(ctx, key, opts)
}

// TestStrayProgress: progress that may be of another watch's stream proves nothing, and does not
// get to the cache; events do as ever.
func TestStrayProgress(t *testing.T) {
	handmade{prefix: "/pods/", raw: overGRPC}.wire(t, func(t *testing.T, r *rig) {
		before, cached := r.applied(), r.answers()
		r.memory.Bump()
		if err := r.cached.RequestWatchProgress(t.Context()); err != nil { // as another cache of the client does
			t.Fatal(err)
		}
		settled()
		if now := r.applied(); now != before {
			t.Errorf("the cache was at %d, and is taken to be at %d", before, now)
		}
		if now := r.answers(); now != cached {
			t.Errorf("the cache answered at %s, and does at %s", cached, now)
		}
		if n := r.breaches(); n != 1 {
			t.Errorf("%v breaches were told of", n)
		}
		last := r.put("b")
		r.put("c")
		settled()
		if now := r.applied(); now < last {
			t.Errorf("events up to %d came, and the cache is taken to be at %d", last, now)
		}
	})
}

// answers is the revision that the cache answers at.
func (r *rig) answers() string {
	pods, err := list(r.t.Context(), r.inner, everything("0"))
	if err != nil {
		r.t.Error(err)
	}
	return pods.ResourceVersion
}

// TestLateTap: a tap that shows later mends it.
func TestLateTap(t *testing.T) {
	handmade{prefix: "/pods/", raw: overGRPC, tapped: true}.wire(t, func(t *testing.T, r *rig) {
		r.feed.misfits(misfitUntapped) // as if the storage had been slow
		r.cached.CutAfter(0)
		r.put("b")
		time.Sleep(time.Second)
		direct := r.cached.Calls().List
		pods, err := list(t.Context(), r.store, everything(""))
		if err != nil || !slices.Equal(names(pods), []string{"a", "b"}) || r.cached.Calls().List != direct {
			t.Errorf("%v, %v, with %d lists of the storage", names(pods), err, r.cached.Calls().List-direct)
		}
	})
}

// TestOneFeedTwoCaches: one that watches beside another is told of, and neither is relied on.
func TestOneFeedTwoCaches(t *testing.T) {
	handmade{prefix: "/pods/", tapped: true}.wire(t, func(t *testing.T, r *rig) {
		newCache(t, "/pods/", r.feed, r.cached)
		time.Sleep(time.Second)
		r.put("b")
		pods, err := list(t.Context(), r.store, everything(""))
		if err != nil || !slices.Equal(names(pods), []string{"a", "b"}) {
			t.Errorf("%v, %v", names(pods), err)
		}
		if n := r.breaches(); n != 1 {
			t.Errorf("%v breaches were told of", n)
		}
	})
}

// TestMisfitsAreKeptApart: one that is mended does not hide another that was found since.
func TestMisfitsAreKeptApart(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		w := &r.feed.wiring
		r.feed.misfits(misfitUntapped)
		r.feed.misfits(misfitShared)
		w.mended(misfitUntapped)
		if err := w.fails(); err == nil || !strings.Contains(err.Error(), string(misfitShared)) {
			t.Errorf("%v, and another cache watches through the Feed", err)
		}
		w.mended(misfitShared)
		if err := w.fails(); err != nil {
			t.Error(err)
		}
	})
}

// TestMisfitAtARevision: what a cache that is wired wrong has at a revision is not to be relied on
// either, although it seems to have reached that.
func TestMisfitAtARevision(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		n := r.put("a")
		settled()
		r.feed.misfits(misfitShared)
		ways := exactlyAt(n)
		ways["or later"] = everything(formatRevision(n))
		for how, opts := range ways {
			before := r.cached.Calls().List
			if _, err := list(t.Context(), r.store, opts); err != nil {
				t.Errorf("%s: %v", how, err)
			}
			if r.cached.Calls().List == before {
				t.Errorf("a LIST at %d %s was answered from the cache", n, how)
			}
		}
	})
}

// TestOneFeedTwoStores: the second is refused where it is for another cache.
func TestOneFeedTwoStores(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		res := r.store.resource
		if _, err := r.backend.Wrap(r.inner, res); err != nil {
			t.Error(err)
		}
		_, other := newCache(t, "/pods/", r.storage(true), r.cached)
		_, err := r.backend.Wrap(other, res)
		wantError(t, err, "Resource.Feed", "pods", "another cache", "build a Feed")
		_, err = r.backend.Wrap(r.feed, res)
		wantError(t, err, "pods", "its Feed", "CacheDelegator")
	})
}

// TestFeedOfAClosedStore: another may have it, once all that had it are closed, and its cache may
// be another, too.
func TestFeedOfAClosedStore(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		res := r.store.resource
		second, err := r.backend.Wrap(r.inner, res)
		if err != nil {
			t.Fatal(err)
		}
		r.cacher.Stop()
		r.cacher, r.inner = newCache(t, "/pods/", r.feed, r.cached)
		r.store.Close()
		r.store.Close()
		_, err = r.backend.Wrap(r.inner, res)
		wantError(t, err, "another cache")
		second.Close()
		if r.store, err = r.backend.Wrap(r.inner, res); err != nil {
			t.Fatal(err)
		}
		r.settle()
		r.put("a")
		before := r.cached.Calls().List
		if pods, err := list(t.Context(), r.store, everything("")); err != nil || !slices.Equal(names(pods), []string{"a"}) {
			t.Errorf("%v, %v", names(pods), err)
		}
		if n := r.cached.Calls().List - before; n != 0 {
			t.Errorf("the cache did not answer, and the storage listed %d times", n)
		}
	})
}

// unversioned is a storage that was made without a Versioner.
type unversioned struct{ storage.Interface }

func (unversioned) Versioner() storage.Versioner { return nil }

// refusals are what is refused when it is built.
var refusals = map[string]func(b, other *Backend, res Resource) error{
	"no Source": func(_, _ *Backend, _ Resource) error { return errOf(NewBackend(Config{})) },
	"a prefix without a slash": func(b, _ *Backend, res Resource) error {
		res.Prefix = "pods"
		return errOf(b.Wrap(&recorder{}, res))
	},
	"a NewList that returns no list": func(b, _ *Backend, res Resource) error {
		res.NewList = notAList
		return errOf(b.Feed(&recorder{}, res))
	},
	"a raw storage without a Versioner": func(b, _ *Backend, res Resource) error {
		return errOf(b.Feed(unversioned{&recorder{}}, res))
	},
	"a Feed of another Backend": func(b, other *Backend, res Resource) error {
		res.Feed, _ = other.Feed(&recorder{}, res)
		return errOf(b.Wrap(&recorder{}, res))
	},
	"a Feed of another prefix": func(b, _ *Backend, res Resource) error {
		nodes := res
		nodes.Prefix = "/nodes/"
		res.Feed, _ = b.Feed(&recorder{}, nodes)
		return errOf(b.Wrap(&recorder{}, res))
	},
	"a Feed of another cache": func(b, _ *Backend, res Resource) error {
		res.Feed, _ = b.Feed(&recorder{}, res)
		_, _ = b.Wrap(&recorder{}, res)
		return errOf(b.Wrap(&recorder{}, res))
	},
	"the Feed in place of the cache": func(b, _ *Backend, res Resource) error {
		res.Feed, _ = b.Feed(&recorder{}, res)
		return errOf(b.Wrap(res.Feed, res))
	},
}

func errOf[T any](_ T, err error) error { return err }

// TestWiringTable: docs/operations.md has what is tested here, and each error names what it is
// said to name there.
func TestWiringTable(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| wired wrong | told | then |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	said := map[string][]string{}
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 3 {
			t.Fatalf("a row has %d cells: %s", len(cells), line)
		}
		said[cells[1]] = append(said[cells[1]], cells[0])
		refuse := refusals[cells[0]]
		if cells[1] != "error" || refuse == nil {
			continue
		}
		res := Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList}
		var parts []string
		for _, match := range quoted.FindAllStringSubmatch(cells[2], -1) {
			parts = append(parts, match[1])
		}
		wantError(t, refuse(backend(t, Config{}), backend(t, Config{}), res), parts...)
	}
	tested := map[string][]string{
		"error":  slices.Collect(maps.Keys(refusals)),
		"breach": append(slices.Collect(maps.Keys(wiredWrong)), "two caches on one Feed"), // TestOneFeedTwoCaches
	}
	for _, rows := range []map[string][]string{said, tested} {
		for _, names := range rows {
			slices.Sort(names)
		}
	}
	if !reflect.DeepEqual(said, tested) {
		t.Errorf("the table has\n%v, and tested are\n%v", said, tested)
	}
}

// TestRefusals: what a cache says of itself or of its storage is no refusal of the pilot's key.
func TestRefusals(t *testing.T) {
	for name, s := range map[string]setup{"ready": {feedless: true}, "not ready": {feedless: true, filling: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				refused := func(err error) bool { return r.store.pilot.refused(t.Context(), err) }
				if got := refused(errors.New("no such key")); got == s.filling {
					t.Errorf("of the key: %t", got)
				}
				if refused(grpcstatus.Error(codes.Unavailable, "down")) {
					t.Error("the storage is down, and the key refused")
				}
			})
		})
	}
}

// TestMended: a mistake is taken back by what shows that it is none, and by nothing else.
func TestMended(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		w := r.store.wiring
		w.found(r.store.observe, misfitUnwatched)
		w.mended(misfitPilot)
		if w.fails() == nil {
			t.Error("another mistake was mended")
		}
		r.cached.CutAfter(0)
		r.put("a")
		time.Sleep(time.Minute)
		if err := w.fails(); err != nil {
			t.Errorf("the cache watches, and %v", err)
		}
	})
}

// TestForeignKeys: what is no key is no foreign one, and nothing is where rvfloor is off.
func TestForeignKeys(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		foreign := func(key string, want bool) {
			t.Helper()
			if got := r.store.foreign(key, false); got != want {
				t.Errorf("%q is foreign: %t", key, got)
			}
		}
		foreign("/others/a", true)
		foreign("/pods/a", false)
		foreign("/others/../a", false)
		if err := r.backend.SetMode(ModeOff); err != nil {
			t.Fatal(err)
		}
		foreign("/others/a", false)
	})
}
