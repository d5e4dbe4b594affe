package decorator

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Checked is what upstream's consistency checker is given in place of a Cacher, so that
// its verdict has consequences: a Cacher that is told to be inconsistent stops to answer
// exact reads from memory, and goes on with all others.
type Checked struct {
	store *Store
	cache CheckedCache
	// checking is the context of the checker's newest list, which ends with it.
	checking      context.Context
	cannotCompare error // a test's
}

// CheckedCache is the part of a Cacher that the checker talks to.
type CheckedCache interface {
	Ready() bool
	MarkConsistent(bool)
}

// Checked is for the checker of cache, which is the one under the Store.
func (s *Store) Checked(cache CheckedCache) *Checked { return &Checked{store: s, cache: cache} }

// Ready is the cache's.
func (c *Checked) Ready() bool { return c.cache.Ready() }

// GetList lists the cache between two revisions: one that the cache has in part would be
// found to differ from the backend's.
func (c *Checked) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	c.checking = ctx
	return c.list(ctx, key, opts, list)
}

func (c *Checked) list(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	r := read{store: c.store, ctx: ctx, verb: verbList, arrived: time.Now()}
	_, err := r.list(key, &opts, list, 0)
	return err
}

// MarkConsistent tells the cache. The reads of one that is not consistent go past it, and a
// Healing builds another; but not again and again, see foundInconsistent.
func (c *Checked) MarkConsistent(consistent bool) {
	c.cache.MarkConsistent(consistent)
	if consistent {
		c.store.foundConsistent()
		return
	}
	ctx := c.checking
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	c.store.foundInconsistent(func() (*difference, error) {
		if c.cannotCompare != nil {
			return nil, c.cannotCompare
		}
		return c.compare(ctx)
	})
}
