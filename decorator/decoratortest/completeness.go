package decoratortest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// herdSize is within the 128 operations of an etcd transaction.
	herdSize  = 100
	herdLabel = "decoratortest-half"
	// herdTTL is the shortest, in seconds, for which etcd3's lease manager lets
	// objects share a lease: for a twentieth of it.
	herdTTL = 20
	// herdWatches bounds the watches of one kind, which stay open to the end.
	herdWatches = 25
)

// checkCompleteness lets many objects end at one revision. Each answer has all of
// them or none.
func checkCompleteness(r *rig) {
	if p, ok := r.Harness.(PartialRevisions); ok {
		r.t.Skipf("NOT TESTED: whole revisions, because the Harness says: %s", p.WhyPartial())
	}
	// A herd's end is more at once than a slow reader's watch outlives: there are more rounds
	// until one did. Without initial events none has a herd to show the end of.
	rounds, atMost, ttl := 5, 50, uint64(0)
	if !r.watchLists() {
		atMost = rounds
	}
	if _, ok := r.Harness.(Transactor); !ok {
		rounds, atMost, ttl = 1, 1, herdTTL
		if testing.Short() {
			r.skip("whole revisions, which take 20 s without a Transactor, under -short", "DeleteTogether", "")
		}
	}
	followed := 0
	for round := 0; round < rounds || followed == 0 && round < atMost; round++ {
		r.create("herd", fmt.Sprintf("herd-marker-%d", round)) // so that a namespace is never empty
		h := r.newHerd(fmt.Sprintf("herd-%d-", round), ttl)
		h.end()
		if followed += h.followed; r.t.Failed() {
			return
		}
	}
	if followed == 0 && atMost > rounds {
		r.t.Errorf("of the watches of %d rounds none had objects and lasted until it had shown their end", atMost)
	}
}

// herd is objects that end at one revision.
type herd struct {
	*rig
	name   string // the start of their names
	keys   []string
	ttl    uint64
	before uint64 // the Store answered with all of them at this revision

	reads    sync.WaitGroup
	mu       sync.Mutex
	followed int                 // watches that had the herd, and showed its end
	wrong    *[3]string          // the first finding, for broken
	ends     map[uint64]struct{} // revisions at which a watch saw objects end
}

func (r *rig) newHerd(name string, ttl uint64) *herd {
	r.t.Helper()
	h := &herd{rig: r, name: name, ttl: ttl, ends: map[uint64]struct{}{}}
	for i := range herdSize {
		name := fmt.Sprintf("%s%03d", name, i)
		obj := r.object("herd", name)
		accessor := r.accessor(obj)
		set := accessor.GetLabels()
		set[herdLabel] = h.half(i)
		accessor.SetLabels(set)
		key := r.Key("herd", name)
		switch err := r.Writer().Create(r.t.Context(), key, obj, empty(obj), ttl); {
		case err != nil && ttl != 0:
			r.skip(fmt.Sprintf("whole revisions; objects with a time to live would do, but Writer().Create: %v", err), "DeleteTogether", "")
		case err != nil:
			r.t.Fatalf("Writer().Create(%q): %v", key, err)
		}
		h.keys = append(h.keys, key)
	}
	v := r.eventually(named("LIST"), write{})
	if n := h.count(v); n != herdSize {
		r.t.Fatalf("a LIST shows %d of %d objects that were created before it", n, herdSize)
	}
	h.before = v.revision
	return h
}

// half is a label that each second object of this herd has.
func (h *herd) half(i int) string { return strings.TrimSuffix(h.name, "-") + "." + strconv.Itoa(i%2) }

func (h *herd) count(v view) int {
	n := 0
	for name := range v.objects {
		if strings.HasPrefix(name, h.name) {
			n++
		}
	}
	return n
}

// end ends the herd while it is read in every way.
func (h *herd) end() {
	ctx, cancel := context.WithTimeout(h.t.Context(), longest+herdTTL*time.Second)
	defer h.reads.Wait()
	defer cancel()
	if tx, ok := h.Harness.(Transactor); ok {
		h.HoldWatch()
		if err := tx.DeleteTogether(ctx, h.keys...); err != nil {
			h.t.Fatalf("DeleteTogether: %v", err)
		}
		h.read(ctx, true)
		h.ReleaseWatch()
	} else {
		time.Sleep((herdTTL - 2) * time.Second) // they cannot end before
		h.read(ctx, false)
		h.expire(ctx)
	}
	h.create("herd", h.marker())
	h.reads.Wait()
	switch {
	case len(h.ends) > 1 && h.ttl != 0:
		h.skip(fmt.Sprintf("whole revisions; objects with a time to live would do, but they ended at %d revisions", len(h.ends)), "DeleteTogether", "")
	case h.wrong != nil:
		h.broken(h.wrong[0], h.wrong[1], h.wrong[2])
	}
}

// found keeps the first finding until it is known that the herd ended at one
// revision.
func (h *herd) found(promised, got, probably string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wrong == nil {
		h.wrong = &[3]string{promised, got, probably}
	}
}

// ended notes a revision at which an object of the herd ended. Nothing else is
// deleted meanwhile.
func (h *herd) ended(revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends[revision] = struct{}{}
}

func (h *herd) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wrong != nil
}

func (h *herd) marker() string { return "marker-" + h.name }

// expire waits until the backend has ended the herd. Nothing that every storage has
// tells of that: so it is asked.
func (h *herd) expire(ctx context.Context) {
	for {
		err := h.Writer().Get(ctx, h.keys[0], storage.GetOptions{}, empty(h.NewObject("herd", h.name)))
		if storage.IsNotFound(err) {
			return
		}
		if err != nil {
			h.t.Skipf("NOT TESTED: whole revisions: objects with a time to live of %d s have not ended: %v", herdTTL, err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// read begins reads of all kinds, which go on until they have seen the end. ended
// says that it was acknowledged before.
func (h *herd) read(ctx context.Context, ended bool) {
	before := strconv.FormatUint(h.before, 10)
	half := func(p *storage.SelectionPredicate) {
		p.Label, p.GetAttrs = labels.SelectorFromSet(labels.Set{herdLabel: h.half(1)}), attributes
	}
	for _, l := range []struct {
		call
		size int
		old  bool // it may show the herd after its end
	}{
		{call{"LIST", listing("", "", "", nil)}, herdSize, !ended},
		{call{"LIST at 0", listing("", "0", "", nil)}, herdSize, !ended},
		{call{"LIST of a namespace", inNamespace("")}, herdSize, !ended},
		{call{"LIST by label", listing("", "", "", half)}, herdSize / 2, !ended},
		{call{"LIST not older than before", listing("", before, metav1.ResourceVersionMatchNotOlderThan, nil)}, herdSize, true},
		{call{"LIST by label, not older than before", listing("", before, metav1.ResourceVersionMatchNotOlderThan, half)}, herdSize / 2, true},
	} {
		for range 2 {
			h.reads.Go(func() { h.list(ctx, l.call, l.size, l.old) })
		}
	}
	if h.watchesState() {
		h.reads.Go(func() { h.watch(ctx, "WATCH", watchOptions("", nil), nil) })
	}
	if h.watchLists() {
		h.reads.Go(func() { h.watch(ctx, "WATCH with initial events", watchOptions("", new(true)), nil) })
		begun := make(chan struct{})
		h.reads.Go(func() {
			h.watch(ctx, "WATCH with initial events from before", watchOptions(before, new(true)), begun)
		})
		<-begun // so that it has the herd when the end comes
	}
}

// list lists until the herd is gone.
func (h *herd) list(ctx context.Context, c call, size int, old bool) {
	for !h.over() {
		v, err := c.read(ctx, h.rig, write{namespace: "herd"})
		n := h.count(v)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return // the test has ended
		case err != nil && (ctx.Err() != nil || retryable(err) != nil):
			h.t.Errorf("%s: %v", c.name, err)
			return
		case err != nil:
		case n != 0 && n != size:
			h.torn(c.name, n, size, v.revision)
		case n != 0 && !old:
			h.found("a "+c.name+" shows every write that was acknowledged before it began",
				fmt.Sprintf("an answer at %d with %d objects that were deleted", v.revision, n),
				"the cache's watch was taken for complete up to a revision with that revision's first event")
		case n == 0:
			return
		}
	}
}

func (h *herd) torn(name string, n, size int, revision uint64) {
	h.found("a "+name+" shows whole revisions: all of the objects that end at one, or none",
		fmt.Sprintf("%d of %d in an answer at %d", n, size, revision),
		"the cache's watch was taken for complete up to a revision before all of its events had come; or the cache has no Feed (see PartialRevisions)")
}

// watch opens watches one after the other and follows each to the marker. first, if it is
// there, is closed when one has shown anything, or none will.
func (h *herd) watch(ctx context.Context, name string, opts storage.ListOptions, first chan<- struct{}) {
	var following sync.WaitGroup
	defer following.Wait()
	over := make(chan struct{}) // a watch has seen the marker
	var once sync.Once
	told := sync.OnceFunc(func() {
		if first != nil {
			close(first)
		}
	})
	defer told()
	for range herdWatches {
		began := make(chan struct{})
		var begun sync.Once
		following.Go(func() {
			defer begun.Do(func() { close(began) })
			if h.follow(ctx, name, opts, func() { begun.Do(func() { close(began) }) }) {
				once.Do(func() { close(over) })
			}
		})
		select {
		case <-began:
		case <-over:
			return
		}
		told()
	}
}

// follow reads one watch up to the marker, and says whether it lasted. begun is called
// when it has shown anything.
func (h *herd) follow(ctx context.Context, name string, opts storage.ListOptions, begun func()) bool {
	v, had := view{objects: map[string]uint64{}}, false
	err := h.rig.watch(ctx, opts, func(e watch.Event, object string, revision uint64) bool {
		begun()
		switch e.Type {
		case watch.Added, watch.Modified:
			v.objects[object] = revision
		case watch.Deleted:
			had = had || strings.HasPrefix(object, h.name)
			delete(v.objects, object)
			h.ended(revision)
		case watch.Bookmark:
			if end, err := storage.HasInitialEventsEndBookmarkAnnotation(e.Object); err != nil || !end {
				return false
			}
			if n := h.count(v); n != 0 && n != herdSize {
				h.torn(name, n, herdSize, revision)
				return true
			}
		}
		_, marked := v.objects[h.marker()]
		return marked && (e.Type != watch.Added || object == h.marker())
	})
	switch n := h.count(v); {
	case err != nil && (inconclusive(err) || retryable(err) == nil):
		// There are others.
	case err != nil:
		h.t.Errorf("%s: %v", name, err)
	case n == 0 && had:
		h.mu.Lock()
		h.followed++
		h.mu.Unlock()
	case n != 0:
		h.found("a "+name+" brings all that changed after the state that it began with",
			fmt.Sprintf("%d of %d deleted objects that it never told the end of", n, herdSize),
			"it was opened while the cache had a part of a revision")
	}
	return err == nil
}
