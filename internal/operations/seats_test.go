package operations

import (
	"testing"

	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// TestWaitingWatchIsNotInitialized: priority and fairness frees the seats of a watch at
// its initialization, which a watch that waits for its cache has not had.
func TestWaitingWatchIsNotInitialized(t *testing.T) {
	s := start(t, etcdlab.Config{})
	initialized := make(signal)
	ctx := utilflowcontrol.WithInitializationSignal(t.Context(), initialized)
	s.proxy.Hold()
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	// It waits for all of MaxWait.
	if _, err := s.store.Watch(ctx, "/pods/", opts); err == nil {
		t.Fatal("a watch was begun that cannot be verified")
	}
	select {
	case <-initialized:
		t.Fatal("the watch that waited was initialized")
	default:
	}
	s.proxy.Heal()
	await(t, func() bool {
		w, err := s.store.Watch(ctx, "/pods/", opts)
		if err == nil {
			w.Stop()
		}
		return err == nil
	})
	<-initialized
}

// signal is closed by the first Signal, the only one here.
type signal chan struct{}

func (s signal) Signal() { close(s) }
func (s signal) Wait()   { <-s }
