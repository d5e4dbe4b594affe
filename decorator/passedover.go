package decorator

import (
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// gap is what one range proof has passed over: the revisions between two at which the cache
// had everything. What was created and deleted in between never reached the cache, so there
// it cannot say what there was, and a watch that begins there does not hear of the deletion.
type gap struct {
	after, upTo uint64 // both are whole
	// The first and the last event that came late, and were not handed on; 0: none yet.
	first, last uint64
}

// maxGaps bounds how many are remembered. Each proof leaves one, as its revision is one from
// which a client that has listed goes on to watch: with too few, clients that take longer
// than so many proofs are sent to list again, maybe for ever. A thousand proofs a second are
// more than one resource makes, and several seconds more than a client takes.
const maxGaps = 4096

// gaps are those of one cache, in order. They stay when its strategy changes.
type gaps struct {
	newest atomic.Uint64 // upTo of the newest; 0: there is none

	mu    sync.Mutex
	all   []gap
	early map[*earlyWatch]struct{} // watches from revisions that the cache had not reached
}

// passedOver reports whether a revision lies within what a proof has passed over. It costs
// nothing where there was no proof.
func (f *Feed) passedOver(revision uint64) bool {
	g := &f.gaps
	if revision >= g.newest.Load() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.overLocked(revision)
}

func (g *gaps) overLocked(revision uint64) bool {
	i := sort.Search(len(g.all), func(i int) bool { return revision < g.all[i].upTo })
	return i < len(g.all) && g.all[i].after < revision
}

// add is called before the cache is told of a proof: who sees the cache at upTo sees the gap.
func (g *gaps) add(after, upTo uint64) {
	g.mu.Lock()
	if len(g.all) == maxGaps {
		// The older half becomes one, all of which may lack something.
		const half = maxGaps / 2
		after, upTo := g.all[0].after, g.all[half-1].upTo
		g.all[half-1] = gap{after: after, upTo: upTo, first: after + 1, last: upTo}
		g.all = slices.Delete(g.all, 0, half-1)
	}
	g.all = append(g.all, gap{after: after, upTo: upTo})
	g.newest.Store(upTo)
	var ended []*earlyWatch
	for w := range g.early {
		if w.from < upTo && w.from > after {
			ended = append(ended, w)
		}
		if w.from <= upTo {
			delete(g.early, w) // no later proof passes over it
		}
	}
	g.mu.Unlock()
	for _, w := range ended {
		w.inner.Stop()
	}
}

// late notes an event that came after a proof had passed over its revision.
func (g *gaps) late(revision uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := sort.Search(len(g.all), func(i int) bool { return revision <= g.all[i].upTo })
	if i == len(g.all) {
		return
	}
	if g.all[i].first == 0 {
		g.all[i].first = revision
	}
	g.all[i].last = max(g.all[i].last, revision)
}

// settle is called when the watch under which the gaps above after were made has brought all
// of them: they were no longer than from the first to the last event that came late.
func (g *gaps) settle(after uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := sort.Search(len(g.all), func(i int) bool { return after <= g.all[i].after })
	made := g.all[i:]
	for j := range made {
		made[j].after, made[j].upTo = made[j].first-1, made[j].last
	}
	g.all = append(g.all[:i], slices.DeleteFunc(made, func(g gap) bool { return g.first == g.last })...)
}

// earlyWatch is a watch from a revision that the cache had not reached. When a proof passes
// over that it is stopped, as upstream stops a watch that is too slow: without a word. Its
// client comes back with the same revision, and is told to list again. An ERROR event would
// cost a goroutine and a hand-over of each event.
type earlyWatch struct {
	inner watch.Interface
	gaps  *gaps
	from  uint64
}

// ResultChan is watch.Interface.
func (w *earlyWatch) ResultChan() <-chan watch.Event { return w.inner.ResultChan() }

// Stop is watch.Interface.
func (w *earlyWatch) Stop() {
	w.gaps.mu.Lock()
	delete(w.gaps.early, w)
	w.gaps.mu.Unlock()
	w.inner.Stop()
}

// enter adds a watch that was just opened. It is false when a proof has passed over its
// revision.
func (g *gaps) enter(w *earlyWatch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.overLocked(w.from) {
		return false
	}
	if g.early == nil {
		g.early = map[*earlyWatch]struct{}{}
	}
	g.early[w] = struct{}{}
	return true
}

// listExactly lists from a storage, the cache or what stands for it. What the cache cannot
// say of an exact revision is read from the raw storage, in every mode: without the proof
// the cache could say it. past reports whether it was.
func (s *Store) listExactly(ctx context.Context, from storage.Interface, key string, opts *storage.ListOptions, list runtime.Object) (past bool, err error) {
	if !s.listsPassedOver(opts) {
		err := from.GetList(ctx, key, *opts, list)
		if !s.listsPassedOver(opts) {
			return false, err
		}
		// A proof has passed over it while the cache was asked.
		if err := meta.SetList(list, nil); err != nil {
			return false, err
		}
	}
	if s.resource.Raw == nil {
		return true, apierrors.NewResourceExpired("rvfloor: the cache does not know what came and went at this " +
			"resourceVersion, and Resource.Raw is not set, from which it could be read; list again")
	}
	return true, s.resource.Raw.GetList(ctx, key, *opts, list)
}

// listsPassedOver reports whether a LIST is one at exactly a revision that a proof has passed
// over.
func (s *Store) listsPassedOver(opts *storage.ListOptions) bool {
	f := s.resource.Feed
	if f == nil || f.gaps.newest.Load() == 0 {
		return false
	}
	exact, _, err := storage.ValidateListOptions(s.resource.Prefix, s.router.versioner, *opts)
	return err == nil && exact > 0 && f.passedOver(uint64(exact))
}

// watchInner opens a watch of the inner storage. From a revision that a proof has passed over
// it is refused as upstream refuses one from before its history.
func (s *Store) watchInner(ctx context.Context, key string, opts *storage.ListOptions) (watch.Interface, error) {
	from := s.resumesFrom(opts)
	if from == 0 {
		return s.inner.Watch(ctx, key, *opts)
	}
	f := s.resource.Feed
	reached := s.stream.Revision() >= from // before the look: what brings the cache there later is a gap by then
	if f.passedOver(from) {
		return watchFailure(errPassedOver())
	}
	w, err := s.inner.Watch(ctx, key, *opts)
	if err != nil || reached {
		return w, err
	}
	early := &earlyWatch{inner: w, gaps: &f.gaps, from: from}
	if !f.gaps.enter(early) {
		w.Stop()
		return watchFailure(errPassedOver())
	}
	return early, nil
}

// resumesFrom returns the revision from which a watch goes on; 0: it begins with a state, or
// there are no proofs that could pass over it.
func (s *Store) resumesFrom(opts *storage.ListOptions) uint64 {
	f := s.resource.Feed
	if f == nil || f.resource.Prove == nil || s.router.watch(opts, watchListEnabled()).initial {
		return 0
	}
	from, err := s.router.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return 0
	}
	return from
}

func errPassedOver() error {
	return apierrors.NewResourceExpired("rvfloor: the cache does not know what came and went at this resourceVersion; list again")
}
