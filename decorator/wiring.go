package decorator

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/storage"
)

// misfit is a mistake in how a cache is wired that shows only when it is used. Its text says
// what to mend.
type misfit string

const (
	// misfitUntapped: on a stream that watches share etcd's progress can overtake events.
	misfitUntapped misfit = "its watch is one of etcd, and no progress.Watcher is behind the Feed, so that progress may overtake events: " +
		"set the Watcher field of the client that the raw storage was made with to progress.NewWatcher(client)"
	misfitUnwatched misfit = "it was filled, and does not watch through Resource.Feed: " +
		"pass the Feed as Storage of cacher.Config, and Resource.Prefix as its ResourcePrefix"
	misfitShared misfit = "another cache watches through its Feed as well: build a Feed for each cache"
	misfitPrefix misfit = "its storage has keys that Resource.Prefix is no prefix of, whose reads cannot be verified: " +
		"set it to the ResourcePrefix of the cache, without what the storage puts in front of all keys"
	misfitPilot misfit = "it refuses a key under Resource.Prefix, so that nobody knows what it has applied: " +
		"set it to the ResourcePrefix of the cache"
)

// wiring holds what was found wrong with how a cache is wired.
type wiring struct {
	present atomic.Pointer[misfit] // the oldest of found: no read is answered from the cache; nil: none
	said    sync.Map               // of misfit: each is told once

	mu  sync.Mutex
	all []misfit // found and not mended; one may be mended while another stays
}

// fails returns the mistake for which nothing may be answered from the cache, or nil.
func (w *wiring) fails() error {
	if m := w.present.Load(); m != nil {
		return m.wrong()
	}
	return nil
}

// wrong returns the mistake as the reason of reads that go past the cache.
func (m misfit) wrong() error { return fmt.Errorf("%w: the cache is wired wrong: %s", errDirect, m) }

// say tells of a mistake, once.
func (w *wiring) say(o *observer, m misfit, keysAndValues ...any) {
	if _, again := w.said.LoadOrStore(m, nil); !again {
		o.breach("A cache is wired wrong, and is answered for by its storage: "+string(m), keysAndValues...)
	}
}

// found lets no read be answered from the cache any more, until the mistake is mended.
func (w *wiring) found(o *observer, m misfit) {
	w.say(o, m)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.all, m) {
		w.all = append(w.all, m)
		w.showLocked()
	}
}

// mended takes back what was found.
func (w *wiring) mended(m misfit) {
	if w.present.Load() == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = slices.DeleteFunc(w.all, func(other misfit) bool { return other == m })
	w.showLocked()
}

func (w *wiring) showLocked() {
	if len(w.all) == 0 {
		w.present.Store(nil)
		return
	}
	w.present.Store(new(w.all[0]))
}

// misfits notes a mistake and ends the waits for the cache, which nothing sound could bring to a
// floor.
func (f *Feed) misfits(m misfit) {
	f.wiring.found(f.observe, m)
	f.stream.Interrupt(m.wrong()) // not fails, which is nil if it was mended since: as if they need not wait
}

// unwatched reports whether the cache was filled without its Feed, and notes that mistake. The
// Store calls it once the cache is filled.
func (s *Store) unwatched() bool {
	f := s.resource.Feed
	if f == nil || f.used.Load() || f.stream.Revision() != 0 {
		return false
	}
	s.wiring.found(s.observe, misfitUnwatched)
	return true
}

// foreign reports whether a key is valid and lacks Resource.Prefix. The inner storage says what
// is wrong with an invalid one.
func (s *Store) foreign(key string, recursive bool) bool {
	if s.backend.Mode() != ModeVerify {
		return false
	}
	_, invalid := storage.PrepareKey("", key, recursive)
	_, ours := storage.PrepareKey(s.resource.Prefix, key, recursive)
	return invalid == nil && ours != nil
}
