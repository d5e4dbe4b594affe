package decorator

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// herd is pods that one transaction changes all at one revision, as the end of a
// lease does: it deletes every other one and writes the rest anew.
type herd struct {
	pods    []*example.Pod
	before  uint64 // all were written at this revision
	changed uint64 // and changed at this one; 0: not yet
}

func (r *rig) herd(size int) *herd {
	r.t.Helper()
	h := &herd{}
	var writes []memstorage.Change
	for i := range size {
		p := pod(fmt.Sprintf("ns%d", i%3), fmt.Sprintf("p%04d", i))
		p.Labels = map[string]string{"app": fmt.Sprintf("a%d", i%4)}
		p.Spec.NodeName = fmt.Sprintf("n%d", i%5)
		h.pods = append(h.pods, p)
		writes = append(writes, memstorage.Put(podKey(p), p))
	}
	h.before = r.txn(writes...)
	return h
}

func (h *herd) gone(i int) bool { return i%2 == 1 }

func (h *herd) change(r *rig) {
	r.t.Helper()
	var writes []memstorage.Change
	for i, p := range h.pods {
		if h.gone(i) {
			writes = append(writes, memstorage.Delete(podKey(p)))
		} else {
			writes = append(writes, memstorage.Put(podKey(p), p))
		}
	}
	h.changed = r.txn(writes...)
}

// scopes are what a list may be of, each with some of the herd in it.
var scopes = map[string]struct {
	key    string
	pred   storage.SelectionPredicate
	within func(*example.Pod) bool
}{
	"all":       {"/pods/", storage.Everything, func(*example.Pod) bool { return true }},
	"namespace": {"/pods/ns1/", storage.Everything, func(p *example.Pod) bool { return p.Namespace == "ns1" }},
	"label":     {"/pods/", selecting("app=a1", ""), func(p *example.Pod) bool { return p.Labels["app"] == "a1" }},
	"field":     {"/pods/", selecting("", "spec.nodeName=n1"), func(p *example.Pod) bool { return p.Spec.NodeName == "n1" }},
}

// whole says whether a list shows all of the change within its scope, or none.
func (h *herd) whole(list *example.PodList, within func(*example.Pod) bool) error {
	versions := map[string]string{}
	for _, p := range list.Items {
		versions[podKey(&p)] = p.ResourceVersion
	}
	done, all := 0, 0
	for i, p := range h.pods {
		if !within(p) {
			continue
		}
		all++
		version, there := versions[podKey(p)]
		delete(versions, podKey(p))
		if h.gone(i) && !there || there && version == formatRevision(h.changed) {
			done++
		} else if version != formatRevision(h.before) {
			return fmt.Errorf("%s is at %q", podKey(p), version)
		}
	}
	switch {
	case len(versions) > 0:
		return fmt.Errorf("the list at %s holds %v, too", list.ResourceVersion, versions)
	case done != 0 && done != all:
		return fmt.Errorf("the list at %s shows %d of %d changes", list.ResourceVersion, done, all)
	}
	return nil
}

// eachInstant lists each scope from s at each instant while raw delivers one
// revision that changes the herd, and returns what came of it, by scope. No time
// passes.
func eachInstant(t *testing.T, r *rig, raw *memstorage.Storage, s storage.Interface, size int) map[string][]error {
	t.Helper()
	h := r.herd(size)
	// The cache has the herd, and a floor is young enough for reads at 0.
	if _, err := list(t.Context(), s, everything("")); err != nil {
		t.Fatal(err)
	}
	settled() // for stock, whose LIST is no proof that the cache has all of the herd
	raw.Hold()
	h.change(r)
	var mu sync.Mutex
	parts := map[string][]error{}
	var reads sync.WaitGroup
	for i := range size + 1 {
		for name, scope := range scopes {
			reads.Go(func() {
				opts := everything("0")
				if i%2 == 0 {
					opts.ResourceVersion = formatRevision(h.before)
				}
				opts.Predicate = scope.pred
				var pods example.PodList
				err := s.GetList(t.Context(), scope.key, opts, &pods)
				if err == nil {
					err = h.whole(&pods, scope.within)
				}
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					parts[name] = append(parts[name], err)
				}
			})
		}
		settled()
		raw.Step(1)
		settled()
	}
	raw.Release()
	reads.Wait()
	return parts
}

// TestWholeRevisions: no list shows a part of a revision, at whatever instant of its
// delivery it comes, also where its floor is below that revision.
func TestWholeRevisions(t *testing.T) {
	const size = 500
	cfg := Config{ZeroVersion: ZeroBounded, MaxStaleness: time.Hour}
	for name, s := range map[string]setup{"tapped": {cfg: cfg}, "untapped": {cfg: cfg, untapped: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				for scope, errs := range eachInstant(t, r, r.cached, r.store, size) {
					t.Errorf("%s: %d of %d lists, such as: %v", scope, len(errs), size+1, errs[0])
				}
			})
		})
	}
}

// TestStockShowsParts: the test above finds what it looks for.
func TestStockShowsParts(t *testing.T) {
	const size = 50
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		raw, stock := r.stock()
		parts := eachInstant(t, r, raw, stock, size)
		for scope := range scopes {
			if len(parts[scope]) == 0 {
				t.Errorf("%s: upstream's cache showed whole revisions at every instant", scope)
			}
		}
	})
}

// TestWholeAfterFloor: a list whose floor is the revision waits for all of it, as
// long as that takes, and fails where it takes too long.
func TestWholeAfterFloor(t *testing.T) {
	const size = 10
	for name, s := range map[string]setup{"tapped": {}, "untapped": {untapped: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, s, func(t *testing.T, r *rig) {
				h := r.herd(size)
				if _, err := list(t.Context(), r.store, everything("")); err != nil {
					t.Fatal(err)
				}
				r.cached.Hold()
				h.change(r)
				for range size {
					if _, err := list(t.Context(), r.store, everything("")); err == nil {
						t.Fatal("a list was answered before the revision was delivered")
					}
					r.cached.Step(1)
					settled()
				}
				r.cached.Release()
				pods, err := list(t.Context(), r.store, everything(""))
				if err != nil || len(pods.Items) != size/2 || pods.ResourceVersion != formatRevision(h.changed) {
					t.Errorf("got %d pods at %s, %v", len(pods.Items), pods.ResourceVersion, err)
				}
			})
		})
	}
}

// tornHerd is a herd that changed, of which the cache has a part and no more comes.
func (r *rig) tornHerd() *herd {
	h := r.herd(10)
	settled()
	r.cached.Hold()
	h.change(r)
	r.cached.Step(3)
	settled()
	return h
}

// TestTornRevisionTimesOut: a list that caught a part of a revision of which the rest
// does not come fails like any that cannot be verified.
func TestTornRevisionTimesOut(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		h := r.tornHerd()
		start := time.Now()
		_, err := list(t.Context(), r.store, everything(formatRevision(h.before)))
		checkStatus(t, err, 504)
		checkChain(t, err, ErrNotFresh, errMaxWait)
		if waited := time.Since(start); waited != defaultMaxWait {
			t.Errorf("waited %v, want %v", waited, defaultMaxWait)
		}
	})
}
