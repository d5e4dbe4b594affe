package backends

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rvfloor/rvfloor/internal/podclient"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// worker is one client of one server.
type worker struct {
	*runner
	podclient.Client
	random *rand.Rand
}

// work makes calls until there are enough.
func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil && w.operations.Add(1) <= int64(w.cfg.Operations) {
		call, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
		err := w.step(call)
		cancel()
		if err != nil {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// step makes one call: one in four writes.
func (w *worker) step(ctx context.Context) (err error) {
	namespace := []string{"a", "b"}[w.random.IntN(2)]
	name := fmt.Sprintf("pod-%d", w.random.IntN(4))
	switch n := w.random.IntN(24); {
	case n < 2:
		_, err = w.Create(ctx, podclient.NewPod(namespace, name))
	case n < 5:
		_, err = w.Update(ctx, podclient.NewPod(namespace, name))
	case n < 6:
		_, err = w.Delete(ctx, namespace, name)
	case n < 8:
		return w.watchList(ctx, namespace)
	case n < 12:
		_, err = w.List(ctx, namespace, sides.Everything(""))
	case n < 17:
		_, err = w.List(ctx, namespace, sides.Everything("0"))
	case n < 20:
		err = w.Get(ctx, namespace, name, "")
	default:
		err = w.Get(ctx, namespace, name, "0")
	}
	return err
}

func (w *worker) watchList(ctx context.Context, namespace string) error {
	_, more, err := w.WatchList(ctx, namespace)
	if err == nil {
		more.Stop()
	}
	return err
}
