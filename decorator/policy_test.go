package decorator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
)

// TestBounded: "0" is answered from what was verified within MaxStaleness, and not
// from what is older.
func TestBounded(t *testing.T) {
	const age = 10 * time.Second
	bubble(t, setup{cfg: Config{ZeroVersion: ZeroBounded, MaxStaleness: age}}, func(t *testing.T, r *rig) {
		r.put("a")
		if _, err := list(t.Context(), r.store, everything("0")); err != nil {
			t.Fatal(err)
		}
		settled() // no kick is on its way
		first, reads := r.applied(), r.floorReads()
		r.memory.Bump()
		time.Sleep(age)
		pods, err := list(t.Context(), r.store, everything("0"))
		if err != nil || pods.ResourceVersion != formatRevision(first) || r.floorReads() != reads {
			t.Errorf("at the age of %v: answered %s (error %v) with %d reads, want %d and none",
				age, pods.ResourceVersion, err, r.floorReads()-reads, first)
		}
		time.Sleep(time.Nanosecond)
		pods, err = list(t.Context(), r.store, everything("0"))
		if err != nil || pods.ResourceVersion != formatRevision(first+1) || r.floorReads() != reads+1 {
			t.Errorf("older than %v: answered %s (error %v) with %d reads, want %d and one",
				age, pods.ResourceVersion, err, r.floorReads()-reads, first+1)
		}
	})
}

// TestAsIs: "0" is answered however old the cache is, also where nothing can be
// verified at all.
func TestAsIs(t *testing.T) {
	bubble(t, setup{cfg: Config{ZeroVersion: ZeroAsIs}}, func(t *testing.T, r *rig) {
		r.cached.Hold()
		r.put("a")
		r.failFloors(errors.New("no quorum"))
		for verb, read := range reads("0") {
			if err := read(t.Context(), r.store); err != nil && !storage.IsNotFound(err) {
				t.Errorf("%s: %v", verb, err)
			}
		}
		if err := reads("")["list"](t.Context(), r.store); !errors.Is(err, ErrNoFloor) {
			t.Errorf("an unset resourceVersion is not for AsIs; got %v", err)
		}
	})
}

// TestCachedGets: with it a Get is answered from the cache, and no older than the
// call.
func TestCachedGets(t *testing.T) {
	for name, s := range map[string]setup{"on": {cfg: Config{CachedGets: true}}, "off": {}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				r.put("a")
				newest := r.put("a")
				before := r.cached.Calls().Get
				var p example.Pod
				if err := r.store.Get(t.Context(), "/pods/ns/a", storage.GetOptions{}, &p); err != nil {
					t.Fatal(err)
				}
				if p.ResourceVersion != formatRevision(newest) {
					t.Errorf("got a@%s, want %d", p.ResourceVersion, newest)
				}
				if fromStorage := r.cached.Calls().Get-before == 1; fromStorage == s.cfg.CachedGets {
					t.Errorf("read from the storage: %t", fromStorage)
				}
			})
		})
	}
}

// TestUnverified is what each policy answers where the cache cannot be brought to a
// floor that is read, and where no floor can be read at all.
func TestUnverified(t *testing.T) {
	type answer struct{ list, get, watch string }
	stale, direct, fails := "stale", "newest", "fails"
	for name, row := range map[string]struct {
		policy OnUnverified
		want   answer
	}{
		"Quorum": {UnverifiedQuorum, answer{direct, direct, fails}},
		"Fail":   {"", answer{fails, fails, fails}},
		"Direct": {UnverifiedDirect, answer{direct, direct, fails}},
		"Stale":  {UnverifiedStale, answer{stale, stale, stale}},
	} {
		for _, rv := range []string{"", "0"} {
			for fault, cause := range map[string]func(*rig){
				"cache held":  func(r *rig) { r.cached.Hold() },
				"no floor":    func(r *rig) { r.cached.Hold(); r.failFloors(errors.New("no quorum")) },
				"floor zero":  func(r *rig) { r.cached.Hold(); r.failFloors(nil) },
				"no progress": func(r *rig) { r.cached.Hold(); r.cached.DropProgress(true) },
			} {
				t.Run(strings.Join([]string{name, "rv " + rv, fault}, "/"), func(t *testing.T) {
					bubble(t, setup{cfg: Config{OnUnverified: row.policy, CachedGets: true}}, func(t *testing.T, r *rig) {
						old := r.put("a")
						settled()
						cause(r)
						newest := r.put("a")
						says := map[string]string{formatRevision(old): stale, formatRevision(newest): direct}
						want := row.want
						if row.policy == UnverifiedQuorum && strings.Contains(fault, "floor") {
							want = answer{fails, fails, fails}
						}
						for verb, want := range map[string]string{"list": want.list, "get": want.get, "watch": want.watch} {
							warnings := &warnings{}
							ctx := warning.WithWarningRecorder(t.Context(), warnings)
							version, err := readA(ctx, verb, r.store, rv)
							got := says[version]
							if err != nil {
								got = fails
							}
							if got != want {
								t.Errorf("%s: got %q (a@%s, error %v), want %q", verb, got, version, err, want)
							}
							if warned := warnings.told(); (len(warned) == 1) != (want == stale) {
								t.Errorf("%s: warned %q for an answer that is %s", verb, warned, want)
							}
						}
					})
				})
			}
		}
	}
}

// TestStaleWarning: what the caller is told of a stale answer names the revision of
// the cache.
func TestStaleWarning(t *testing.T) {
	bubble(t, setup{cfg: Config{OnUnverified: UnverifiedStale}}, func(t *testing.T, r *rig) {
		old := r.put("a")
		settled()
		r.cached.Hold()
		r.put("b")
		warned := &warnings{}
		if _, err := list(warning.WithWarningRecorder(t.Context(), warned), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		if told := warned.told(); len(told) != 1 || !strings.Contains(told[0], formatRevision(old)) || !strings.Contains(told[0], "stale") {
			t.Errorf("the caller was told %q", told)
		}
		if got := r.reads(verbList, routeFloor, outcomeStale); got != 1 {
			t.Errorf("%v stale lists were counted, want 1", got)
		}
	})
}

// TestStaleKeepsPages: Stale gives no page of a list whose token asks for the
// newest: its first page was of another revision.
func TestStaleKeepsPages(t *testing.T) {
	bubble(t, setup{cfg: Config{OnUnverified: UnverifiedStale}}, func(t *testing.T, r *rig) {
		r.put("a")
		settled()
		r.cached.Hold()
		r.put("b")
		if _, err := list(t.Context(), r.store, listOptions{token: tokenNewest}.options()); !errors.Is(err, ErrNotFresh) {
			t.Errorf("got %v, want ErrNotFresh", err)
		}
	})
}

// TestShadow: what is asked of the cache and what is answered is stock's, while
// every read is verified and counted beside it.
func TestShadow(t *testing.T) {
	for name, row := range map[string]struct {
		fault func(*rig)
		want  outcome
	}{
		"fresh":     {func(*rig) {}, outcomeOK},
		"not fresh": {func(r *rig) { r.cached.Hold(); r.memory.Bump() }, outcomeNotFresh},
		"no floor":  {func(r *rig) { r.failFloors(errors.New("no quorum")) }, outcomeNoFloor},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, setup{cfg: Config{Shadow: true, CachedGets: true}}, func(t *testing.T, r *rig, seen *spy) {
				settled()
				before := r.reads(verbList, routeFloor, outcomeOK) // that of behind
				row.fault(r)
				for _, read := range reads("0") {
					start := time.Now()
					if err := read(t.Context(), r.store); err != nil {
						t.Errorf("got %v", err)
					}
					if waited := time.Since(start); waited != 0 {
						t.Errorf("a read at 0 waited %v", waited)
					}
				}
				got := seen.asked()
				if want := []string{"list 0", "get 0", "watch 0"}; !slices.Equal(got, want) {
					t.Errorf("the cache was asked %q, want %q", got, want)
				}
				time.Sleep(cacherTimers)
				for v := range verbs {
					n := r.reads(v, routeFloor, row.want)
					if v == verbList && row.want == outcomeOK {
						n -= before
					}
					if n != 1 {
						t.Errorf("%v %ss were counted as %s, want 1", n, v, row.want)
					}
				}
			})
		})
	}
}

// failFloors makes the Source fail with err, or answer 0 where that is nil. What the
// cache itself reads is not touched.
func (r *rig) failFloors(err error) {
	r.writer.OnRevision(func(context.Context, uint64) (uint64, error) { return 0, err })
}

// reads are a read of each verb of pod a.
func reads(rv string) map[string]func(context.Context, storage.Interface) error {
	all := map[string]func(context.Context, storage.Interface) error{}
	for _, verb := range []string{"list", "get", "watch"} {
		all[verb] = func(ctx context.Context, s storage.Interface) error {
			_, err := readA(ctx, verb, s, rv)
			return err
		}
	}
	return all
}

// readA returns the resourceVersion of pod a as a verb sees it.
func readA(ctx context.Context, verb string, s storage.Interface, rv string) (string, error) {
	switch verb {
	case "get":
		var p example.Pod
		err := s.Get(ctx, "/pods/ns/a", storage.GetOptions{ResourceVersion: rv}, &p)
		return p.ResourceVersion, err
	case "list":
		pods, err := list(ctx, s, everything(rv))
		for _, p := range pods.Items {
			if p.Name == "a" {
				return p.ResourceVersion, err
			}
		}
		return "", err
	default:
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, err := s.Watch(ctx, "/pods/", everything(rv))
		if err != nil {
			return "", err
		}
		defer w.Stop()
		for _, event := range received(w) {
			if err := failureOf(event); err != nil {
				return "", err
			}
			if p := event.Object.(*example.Pod); p.Name == "a" {
				return p.ResourceVersion, nil
			}
		}
		return "", nil
	}
}

// warnings is what a client would be told in Warning headers.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) AddWarning(_, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}
