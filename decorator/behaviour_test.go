package decorator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// In the tests below the cache is at appliedAt when the read comes, and the backend
// at floorAt: something that the cache does not hold has moved it on.
const (
	appliedAt = 4 // pods a, b and c at 2, 3 and 4
	floorAt   = 6
)

// behind makes a rig like that, and a spy between its Store and its cache.
func behind(t *testing.T, s setup, f func(*testing.T, *rig, *spy)) {
	t.Helper()
	seen := &spy{}
	s.inner = func(inner storage.Interface) storage.Interface {
		seen.Interface = inner
		return seen
	}
	bubble(t, s, func(t *testing.T, r *rig) {
		for _, name := range []string{"a", "b", "c"} {
			r.put(name)
		}
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		settled()
		if r.applied() != appliedAt {
			t.Fatalf("the cache is at %d, want %d", r.applied(), appliedAt)
		}
		r.memory.Bump()
		if r.memory.Bump() != floorAt {
			t.Fatalf("the backend is at %d, want %d", r.memory.Revision(), floorAt)
		}
		seen.forget()
		f(t, r, seen)
	})
}

// step is a read and what is to come of it. Text that begins a row says what the
// inner storage is to be asked: F stands for the floor.
type step struct {
	asked string // "": nothing
	reads int64  // of the Source, without those of the cache itself
	least uint64 // the answer is at or above it; 0: it is an error
}

const fresh = "list F" + string(notOlderThan)

// TestListRoutes runs every row of section 5's table for GetList.
func TestListRoutes(t *testing.T) {
	for name, row := range map[string]struct {
		zero ZeroVersion
		opts listOptions
		want step
	}{
		"unset":                           {"", listOptions{}, step{fresh, 1, floorAt}},
		"unset, single":                   {"", listOptions{single: true}, step{fresh, 1, floorAt}},
		"unset, limit":                    {"", listOptions{limit: 2}, step{fresh, 1, floorAt}},
		"unset, not older":                {"", listOptions{match: notOlderThan}, step{fresh, 1, floorAt}},
		"unset, token of the newest":      {"", listOptions{token: tokenNewest}, step{"list ", 1, floorAt}},
		"unset, token of a revision":      {"", listOptions{token: token(appliedAt)}, step{"list ", 0, appliedAt}},
		"unset, token of one ahead":       {"", listOptions{token: token(floorAt)}, step{"list ", 1, floorAt}},
		"zero, token of one ahead":        {ZeroAsIs, listOptions{rv: "0", token: token(floorAt)}, step{"list 0", 1, floorAt}},
		"unset, token of one to come":     {"", listOptions{token: token(7)}, step{"", 1, 0}},
		"unset, token beside a match":     {"", listOptions{token: token(appliedAt), match: notOlderThan}, step{"list NotOlderThan", 1, floorAt}},
		"zero, token beside a match":      {"", listOptions{rv: "0", token: "e30", match: notOlderThan, single: true}, step{"list 0NotOlderThan", 1, floorAt}},
		"zero, Verified":                  {ZeroVerified, listOptions{rv: "0"}, step{"list 0", 1, floorAt}},
		"zero, Verified, limit":           {ZeroVerified, listOptions{rv: "0", limit: 2}, step{"list 0", 1, floorAt}},
		"zero, Verified, not older":       {ZeroVerified, listOptions{rv: "0", match: notOlderThan}, step{"list 0NotOlderThan", 1, floorAt}},
		"zero, Bounded, a floor is young": {ZeroBounded, listOptions{rv: "0"}, step{"list 0", 0, appliedAt}},
		"zero, AsIs":                      {ZeroAsIs, listOptions{rv: "0"}, step{"list 0", 0, appliedAt}},
		"N applied":                       {"", listOptions{rv: "4"}, step{"list 4", 0, appliedAt}},
		"N applied, not older":            {"", listOptions{rv: "4", match: notOlderThan}, step{"list 4NotOlderThan", 0, appliedAt}},
		"N ahead":                         {"", listOptions{rv: "5"}, step{"list 5", 1, 5}},
		"N ahead, not older, limit":       {"", listOptions{rv: "5", match: notOlderThan, limit: 2}, step{"list 5NotOlderThan", 1, 5}},
		"N to come":                       {"", listOptions{rv: "7"}, step{"", 1, 0}},
		"N applied, exact":                {"", listOptions{rv: "3", match: exactly}, step{"list 3Exact", 0, 3}},
		"N ahead, exact":                  {"", listOptions{rv: "6", match: exactly}, step{"list 6Exact", 1, floorAt}},
		"N to come, exact":                {"", listOptions{rv: "7", match: exactly}, step{"", 1, 0}},
		"N applied, limit: exact":         {"", listOptions{rv: "3", limit: 2}, step{"list 3", 0, 3}},
		"N ahead, limit: exact":           {"", listOptions{rv: "6", limit: 2}, step{"list 6", 1, floorAt}},
		"N to come, limit: exact":         {"", listOptions{rv: "7", limit: 2}, step{"", 1, 0}},
		"no number":                       {"", listOptions{rv: "nine"}, step{"list nine", 0, 0}},
		"unknown match":                   {"", listOptions{rv: "4", match: unknownRVM}, step{"list 4Newest", 0, 0}},
		"token of garbage":                {"", listOptions{token: "garbage"}, step{"list ", 0, 0}},
		"token and a resourceVersion":     {"", listOptions{rv: "4", token: tokenNewest}, step{"list 4", 0, 0}},
		"exact without resourceVersion":   {"", listOptions{match: exactly}, step{"list Exact", 0, floorAt}},
		"exact with resourceVersion zero": {"", listOptions{rv: "0", match: exactly}, step{"list 0Exact", 0, floorAt}},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, setup{cfg: zeroVersion(row.zero)}, func(t *testing.T, r *rig, seen *spy) {
				before := r.floorReads()
				pods := &example.PodList{}
				err := r.store.GetList(t.Context(), r.key(row.opts.single), row.opts.options(), pods)
				row.want.check(t, r, seen, before, pods.ResourceVersion, err)
				exact := strings.Contains(name, "exact") || strings.Contains(name, "token of a revision") || strings.Contains(name, "token of one")
				if exact && err == nil && pods.ResourceVersion != fmt.Sprint(row.want.least) {
					t.Errorf("asked for exactly %d, got %s", row.want.least, pods.ResourceVersion)
				}
			})
		})
	}
}

// TestGetRoutes runs every row of section 5's table for Get.
func TestGetRoutes(t *testing.T) {
	for name, row := range map[string]struct {
		cfg  Config
		rv   string
		want step
	}{
		"unset":             {Config{}, "", step{"get ", 0, 2}},
		"unset, CachedGets": {Config{CachedGets: true}, "", step{"get F", 1, 2}},
		"zero, Verified":    {Config{}, "0", step{"get F", 1, 2}},
		"zero, Bounded":     {zeroVersion(ZeroBounded), "0", step{"get 4", 0, 2}},
		"zero, AsIs":        {zeroVersion(ZeroAsIs), "0", step{"get 0", 0, 2}},
		"N applied":         {Config{}, "4", step{"get 4", 0, 2}},
		"N ahead":           {Config{}, "5", step{"get 5", 1, 2}},
		"N to come":         {Config{}, "7", step{"", 1, 0}},
		"no number":         {Config{}, "nine", step{"get nine", 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, setup{cfg: row.cfg}, func(t *testing.T, r *rig, seen *spy) {
				before := r.floorReads()
				var p example.Pod
				err := r.store.Get(t.Context(), "/pods/ns/a", storage.GetOptions{ResourceVersion: row.rv}, &p)
				row.want.check(t, r, seen, before, p.ResourceVersion, err)
			})
		})
	}
}

// TestWatchRoutes runs every row of section 5's table for Watch. A watch is judged
// by the cache's revision when it has been opened.
func TestWatchRoutes(t *testing.T) {
	for name, row := range map[string]struct {
		zero ZeroVersion
		opts listOptions
		want step
	}{
		"unset":                          {"", listOptions{}, step{"watch ", 1, floorAt}},
		"unset, initial events":          {"", listOptions{initial: new(true)}, step{"watch F", 1, floorAt}},
		"unset, no initial events":       {"", listOptions{initial: new(false)}, step{"watch F", 1, appliedAt}},
		"zero, Verified":                 {"", listOptions{rv: "0"}, step{"watch 0", 1, floorAt}},
		"zero, Verified, initial events": {"", listOptions{rv: "0", initial: new(true)}, step{"watch 0", 1, floorAt}},
		"zero, Verified, no initial":     {"", listOptions{rv: "0", initial: new(false)}, step{"watch 0", 1, floorAt}},
		"zero, Bounded":                  {ZeroBounded, listOptions{rv: "0"}, step{"watch 0", 0, appliedAt}},
		"zero, AsIs":                     {ZeroAsIs, listOptions{rv: "0"}, step{"watch 0", 0, appliedAt}},
		"N applied":                      {"", listOptions{rv: "4"}, step{"watch 4", 0, appliedAt}},
		"N ahead":                        {"", listOptions{rv: "5"}, step{"watch 5", 1, appliedAt}},
		"N ahead, initial events":        {"", listOptions{rv: "5", initial: new(true)}, step{"watch 5", 1, 5}},
		"N to come":                      {"", listOptions{rv: "7"}, step{"", 1, 0}},
		"N to come, initial events":      {"", listOptions{rv: "7", initial: new(true)}, step{"", 1, 0}},
		"no number":                      {"", listOptions{rv: "nine"}, step{"watch nine", 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, setup{cfg: zeroVersion(row.zero)}, func(t *testing.T, r *rig, seen *spy) {
				before := r.floorReads()
				w, err := r.store.Watch(t.Context(), "/pods/", row.opts.options())
				applied := fmt.Sprint(r.applied())
				if err == nil {
					defer w.Stop()
					err = firstFailure(w)
				}
				row.want.check(t, r, seen, before, applied, err)
			})
		})
	}
}

// failureOf is the error of an ERROR event; nil for any other.
func failureOf(event watch.Event) error {
	if event.Type != watch.Error {
		return nil
	}
	return apierrors.FromObject(event.Object)
}

// firstFailure is that of the first ERROR event that a watch delivers.
func firstFailure(w watch.Interface) error {
	for _, event := range received(w) {
		if err := failureOf(event); err != nil {
			return err
		}
	}
	return nil
}

func (s step) check(t *testing.T, r *rig, seen *spy, before int64, answered string, err error) {
	t.Helper()
	var want []string
	if s.asked != "" {
		verb, how, _ := strings.Cut(s.asked, " ")
		want = []string{verb + " " + strings.Replace(how, "F", fmt.Sprint(floorAt), 1)}
	}
	if got := seen.asked(); !slices.Equal(got, want) {
		t.Errorf("the cache was asked %q, want %q", got, want)
	}
	if got := r.floorReads() - before; got != s.reads {
		t.Errorf("the source was read %d times, want %d", got, s.reads)
	}
	if (err == nil) != (s.least > 0) {
		t.Errorf("got error %v, want one: %t", err, s.least == 0)
	}
	if err == nil {
		if revision, _ := r.writer.Versioner().ParseResourceVersion(answered); revision < s.least {
			t.Errorf("answered at %q, want at least %d", answered, s.least)
		}
	}
}

func (r *rig) key(single bool) string {
	if single {
		return "/pods/ns/a"
	}
	return "/pods/"
}

func zeroVersion(z ZeroVersion) Config {
	cfg := Config{ZeroVersion: z}
	if z == ZeroBounded {
		cfg.MaxStaleness = 10 * cacherTimers
	}
	return cfg
}

// TestZeroIgnoresLimit: upstream ignores a limit at resourceVersion "0", and so a
// verified read must.
func TestZeroIgnoresLimit(t *testing.T) {
	behind(t, setup{}, func(t *testing.T, r *rig, _ *spy) {
		pods, err := list(t.Context(), r.store, listOptions{rv: "0", limit: 2}.options())
		if err != nil || len(pods.Items) != 3 || pods.Continue != "" {
			t.Errorf("got %q, token %q, error %v; want all three without a token", names(pods), pods.Continue, err)
		}
	})
}

// TestUnsetKeepsLimit: a list in pages stays one, and all its pages are of the
// revision of the first.
func TestUnsetKeepsLimit(t *testing.T) {
	behind(t, setup{}, func(t *testing.T, r *rig, _ *spy) {
		first, err := list(t.Context(), r.store, listOptions{limit: 2}.options())
		if err != nil || !slices.Equal(names(first), []string{"a", "b"}) || first.Continue == "" {
			t.Fatalf("the first page is %q, token %q, error %v", names(first), first.Continue, err)
		}
		if first.RemainingItemCount == nil || *first.RemainingItemCount != 1 {
			t.Errorf("%v remain, want 1", first.RemainingItemCount)
		}
		r.put("c", "d")
		if _, err := list(t.Context(), r.store, everything("")); err != nil {
			t.Fatal(err)
		}
		second, err := list(t.Context(), r.store, listOptions{limit: 2, token: first.Continue}.options())
		if err != nil || !slices.Equal(names(second), []string{"c"}) || second.ResourceVersion != first.ResourceVersion {
			t.Errorf("the second page is %q at %s, error %v; want c at %s", names(second), second.ResourceVersion, err, first.ResourceVersion)
		}
	})
}

// TestKeysAreCheckedFirst: a key that upstream refuses costs no read of the source,
// and its error stands.
func TestKeysAreCheckedFirst(t *testing.T) {
	behind(t, setup{}, func(t *testing.T, r *rig, seen *spy) {
		before := r.floorReads()
		for _, key := range []string{"", "/", "/nodes/", "/pods/../nodes/", "/pods/./a"} {
			ctx := t.Context()
			_, watchErr := r.store.Watch(ctx, key, everything(""))
			_, stockErr := seen.Interface.Watch(ctx, key, everything(""))
			for name, errs := range map[string][2]error{
				"list":  {r.store.GetList(ctx, key, everything(""), newPodList()), seen.Interface.GetList(ctx, key, everything(""), newPodList())},
				"get":   {r.store.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, newPod()), seen.Interface.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, newPod())},
				"watch": {watchErr, stockErr},
			} {
				if errs[0] == nil || errs[1] == nil || errs[0].Error() != errs[1].Error() {
					t.Errorf("%s %q: got %v, stock says %v", name, key, errs[0], errs[1])
				}
			}
		}
		if got := r.floorReads() - before; got != 0 {
			t.Errorf("the source was read %d times for keys that are refused", got)
		}
	})
}

// received is what a watch has delivered when nothing moves any more.
func received(w watch.Interface) []watch.Event {
	var events []watch.Event
	for {
		settled()
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return events
			}
			events = append(events, event)
		default:
			return events
		}
	}
}

// short is an event in a few letters.
func short(event watch.Event) string {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return fmt.Sprintf("%s %v", event.Type, failureOf(event))
	}
	if endsInitialEvents(object) {
		return "END " + object.GetResourceVersion()
	}
	return fmt.Sprintf("%s %s@%s", event.Type, object.GetName(), object.GetResourceVersion())
}

func shorts(events []watch.Event) []string {
	var all []string
	for _, event := range events {
		all = append(all, short(event))
	}
	return all
}
