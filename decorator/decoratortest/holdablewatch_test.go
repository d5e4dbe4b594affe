package decoratortest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator/decoratortest"
)

// watched is a storage that has one watch.
type watched struct {
	storage.Interface
	watch watch.Interface
}

func (w watched) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return w.watch, nil
}

// TestHoldableWatch: what a watch has taken from the storage but not delivered is
// held, too, and all of it comes in order.
func TestHoldableWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := watch.NewFakeWithChanSize(3, false)
		h := decoratortest.NewHoldableWatch(watched{watch: inner})
		w, err := h.Watch(t.Context(), "", storage.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		inner.Add(newPod())
		inner.Modify(newPod())
		synctest.Wait() // the first is on offer
		h.HoldWatch()
		select {
		case e := <-w.ResultChan():
			t.Fatalf("%s after HoldWatch", e.Type)
		default:
		}
		inner.Delete(newPod())
		h.ReleaseWatch()
		for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
			if e := <-w.ResultChan(); e.Type != want {
				t.Errorf("%s, want %s", e.Type, want)
			}
		}
		w.Stop()
		if e, open := <-w.ResultChan(); open {
			t.Errorf("%s after Stop", e.Type)
		}
	})
}
