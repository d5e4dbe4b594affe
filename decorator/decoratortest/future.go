package decoratortest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// far is how far above the newest revision a read asks for. FoundationDB's revisions
// run on by a million each second.
const far uint64 = 1 << 40

// leasts are the ways to ask for what is not older than a revision, or at it. A watch
// stays open for as long as open says.
func (r *rig) leasts(revision uint64, open time.Duration) []call {
	rv := strconv.FormatUint(revision, 10)
	calls := []call{
		{"LIST at N", listing("", rv, "", nil)},
		{"LIST not older than N", listing("", rv, metav1.ResourceVersionMatchNotOlderThan, nil)},
		{"LIST at exactly N", listing("", rv, metav1.ResourceVersionMatchExact, nil)},
		{"LIST at N with a limit", listing("", rv, "", func(p *storage.SelectionPredicate) { p.Limit = 2 })},
		{"GET at N", getting(rv)},
		{"WATCH at N", opening(rv, open)},
	}
	if r.watchLists() {
		calls = append(calls, call{"WATCH at N with initial events", beginning(rv)})
	}
	return calls
}

// checkFuture asks for what does not exist yet, and for what the cache is known to
// have.
func checkFuture(r *rig) {
	seeded := r.create("future", "future-seeded")
	seen := r.mustShow(named("LIST"), seeded, "").revision
	r.cached(seen)

	r.each("Released", r.leasts(seen+far, longest/3), seeded, (*rig).refused)
	r.HoldWatch()
	defer r.ReleaseWatch()
	if _, err := r.update(r.Writer(), seeded); err != nil {
		r.t.Fatalf("through Writer: %v", err)
	}
	r.each("Held", r.leasts(seen+far, longest/3), seeded, (*rig).refused)
	// The cache has this revision: it has no need of a floor, which it could not get to
	// now.
	r.each("Past", r.leasts(seen, brief), seeded, func(r *rig, c call, a answer) {
		if r.answered(c, a); a.err == nil {
			r.reaches(c, a, seen, seeded)
		}
	})
}

// cached returns when the cache is known to have a revision: a watch through it has
// brought a later write. That the Store has answered at the revision is no proof, as one
// that has no faith in its cache just then asks the storage.
func (r *rig) cached(revision uint64) {
	r.t.Helper()
	marker := r.create("cached", "cached-marker")
	ctx, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	for {
		err := r.watch(ctx, watchOptions(strconv.FormatUint(revision, 10), nil), func(_ watch.Event, name string, _ uint64) bool {
			return name == marker.name
		})
		if err == nil {
			r.mustShow(named("LIST"), marker, "") // and all of its revision is there
			return
		}
		if ctx.Err() != nil || !inconclusive(err) && retryable(err) != nil {
			r.t.Fatalf("a watch from %d, at which the Store has answered, does not bring a later write: %v", revision, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// each makes all calls at once, and judges each in a test of its own.
func (r *rig) each(name string, calls []call, w write, judge func(*rig, call, answer)) {
	ctx, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	var answers []<-chan answer
	for _, c := range calls {
		answers = append(answers, r.ask(ctx, c, w))
	}
	for i, c := range calls {
		r.t.Run(name+"/"+c.name, func(t *testing.T) { judge(r.in(t), c, <-answers[i]) })
	}
}

func (r *rig) refused(c call, a answer) {
	switch {
	case !isTooLarge(a.err):
		r.broken(fmt.Sprintf("a %s, where N is %d above the newest revision, fails with TooLargeResourceVersion", c.name, far),
			fmt.Sprintf("%v, after %v", a.err, a.took),
			"N is not compared with a floor before the Store waits for N, or opens the watch")
	case a.took > atOnce:
		r.broken(fmt.Sprintf("a %s, where N is %d above the newest revision, fails at once", c.name, far),
			fmt.Sprintf("it took %v", a.took), "the cache was asked, which waits for N")
	}
}

// reaches judges what was answered to a call that named a revision at which the write was
// there.
func (r *rig) reaches(c call, a answer, revision uint64, w write) {
	if a.revision == 0 && a.objects == nil && strings.HasPrefix(c.name, "WATCH") {
		return // it was only opened
	}
	promised := fmt.Sprintf("a %s, where N is %d, is answered at N or later", c.name, revision)
	const probably = "the cache was asked for another revision, or for any"
	at, there := a.objects[w.name]
	switch {
	case a.revision != 0 && a.revision < revision:
		r.broken(promised, fmt.Sprintf("it was answered at %d", a.revision), probably)
	case strings.Contains(c.name, "exactly") && a.revision != revision:
		r.broken(fmt.Sprintf("a %s, where N is %d, is answered at N", c.name, revision), fmt.Sprintf("it was answered at %d", a.revision), probably)
	case !there && !strings.Contains(c.name, "limit"), there && at < w.revision:
		r.broken(promised, fmt.Sprintf("%s, written at %d, is at %d there (0: not at all)", w.name, w.revision, at), probably)
	}
}

func (r *rig) answered(c call, a answer) {
	if a.err != nil {
		r.broken("a "+c.name+", where N is a revision that the Store has answered at, is answered with the cache's watch held back",
			a.err.Error(), "the Store waits for a floor where the caller has named the revision")
	}
}

// beginning reads the initial events of a watch: they tell that no ERROR came before.
func beginning(resourceVersion string) func(context.Context, *rig, write) (view, error) {
	return func(ctx context.Context, r *rig, _ write) (view, error) {
		return watching(resourceVersion, new(true))(ctx, r, write{})
	}
}

// opening opens a watch and ends it after a time, unless it brings an ERROR first.
func opening(resourceVersion string, after time.Duration) func(context.Context, *rig, write) (view, error) {
	return func(ctx context.Context, r *rig, _ write) (view, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, err := r.Store().Watch(ctx, r.prefix(), watchOptions(resourceVersion, nil))
		if err != nil {
			return view{}, err
		}
		// To open it may take long: a slow backend's floor.
		time.AfterFunc(after, cancel)
		err = r.follow(ctx, w, func(watch.Event, string, uint64) bool { return true })
		if inconclusive(err) {
			err = nil
		}
		return view{}, err
	}
}
