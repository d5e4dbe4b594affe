package decoratortest

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// ReplayCache is a cache that can be made to answer a list from the past. It stands
// between the cache and the Store, and has the method of a ListReplayer.
type ReplayCache struct {
	// Embedded, unlike anywhere else: all but lists is the cache's.
	storage.Interface

	mu     sync.Mutex
	last   runtime.Object // the newest list of many keys
	replay bool
}

// NewReplayCache returns cache with lists that can be replayed.
func NewReplayCache(cache storage.Interface) *ReplayCache { return &ReplayCache{Interface: cache} }

// ReplayList makes the next list of many keys answer what the last one did.
func (c *ReplayCache) ReplayList() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replay = c.last != nil
}

// GetList is storage.Interface.
func (c *ReplayCache) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if !opts.Recursive {
		return c.Interface.GetList(ctx, key, opts, list)
	}
	if last := c.take(); last != nil {
		reflect.ValueOf(list).Elem().Set(reflect.ValueOf(last).Elem())
		return nil
	}
	err := c.Interface.GetList(ctx, key, opts, list)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last = list.DeepCopyObject()
	}
	return err
}

// take is what to replay, or nil. It is given out once.
func (c *ReplayCache) take() runtime.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.replay {
		return nil
	}
	last := c.last
	c.replay, c.last = false, nil
	return last
}
