package decorator

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// spy is a storage that remembers the options of the reads that come through, and
// may answer some itself.
type spy struct {
	storage.Interface
	onList func(ctx context.Context, opts storage.ListOptions, list runtime.Object, pass func() error) error

	mu      sync.Mutex
	lists   []storage.ListOptions
	gets    []storage.GetOptions
	watches []storage.ListOptions
}

func (s *spy) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	s.mu.Lock()
	s.gets = append(s.gets, opts)
	s.mu.Unlock()
	return s.Interface.Get(ctx, key, opts, out)
}

func (s *spy) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	s.mu.Lock()
	s.lists = append(s.lists, opts)
	s.mu.Unlock()
	pass := func() error { return s.Interface.GetList(ctx, key, opts, list) }
	if s.onList != nil {
		return s.onList(ctx, opts, list, pass)
	}
	return pass()
}

func (s *spy) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	s.watches = append(s.watches, opts)
	s.mu.Unlock()
	return s.Interface.Watch(ctx, key, opts)
}

// asked is the resourceVersion and the match of the reads until now, oldest first.
func (s *spy) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, o := range s.lists {
		all = append(all, "list "+o.ResourceVersion+string(o.ResourceVersionMatch))
	}
	for _, o := range s.gets {
		all = append(all, "get "+o.ResourceVersion)
	}
	for _, o := range s.watches {
		all = append(all, "watch "+o.ResourceVersion+string(o.ResourceVersionMatch))
	}
	return all
}

func (s *spy) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists, s.gets, s.watches = nil, nil, nil
}
