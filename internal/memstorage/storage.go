package memstorage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Config describes one resource of a Backend.
type Config struct {
	// Prefix is that of the keys, such as "/pods". Required.
	Prefix string
	// New returns an empty object of the kind, which bookmarks carry. Required.
	New func() runtime.Object
	// Tapped makes watches report to the progress.Tap of their context, as
	// progress.Watcher does over etcd. Without it RequestWatchProgress is all there
	// is, and it reaches every watch of the Storage.
	Tapped bool
}

// Storage is one resource of a Backend: a storage.Interface. Two Storages of one
// prefix are two clients of the same data, each with switches and counts of its own.
type Storage struct {
	backend *Backend
	cfg     Config
	calls   counters

	// Guarded by Backend.mu.
	faults faults

	sizes sync.Mutex
	keys  storage.KeysFunc
}

var _ storage.Interface = (*Storage)(nil)

// New returns a Storage, or an error that names the field of cfg that is wrong.
func New(backend *Backend, cfg Config) (*Storage, error) {
	switch {
	case backend == nil:
		return nil, errors.New("memstorage: backend is nil; use NewBackend")
	case !strings.HasPrefix(cfg.Prefix, "/") || cfg.Prefix == "/":
		return nil, fmt.Errorf(`memstorage: Config.Prefix is %q; use the start of its keys, such as "/pods"`, cfg.Prefix)
	case cfg.New == nil:
		return nil, errors.New("memstorage: Config.New is nil; set it to a function that returns an empty object")
	}
	return &Storage{backend: backend, cfg: cfg, faults: newFaults()}, nil
}

// Backend is what the Storage was made with.
func (s *Storage) Backend() *Backend { return s.backend }

// Versioner reads and writes resourceVersions as etcd3's store does.
func (s *Storage) Versioner() storage.Versioner { return versioner }

// Create is storage.Interface. A ttl is refused.
func (s *Storage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	s.calls.create.Add(1)
	key, err := storage.PrepareKey(s.cfg.Prefix, key, false)
	if err != nil {
		return err
	}
	if version, err := versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	if ttl != 0 {
		return errors.New("memstorage: a time to live is not supported; create without one and delete")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	object, err := prepared(obj)
	if err != nil {
		return err
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.history.newest(key).object != nil {
		return storage.NewKeyExistsError(key, 0)
	}
	b.commitLocked([]write{{key, object}})
	if out == nil {
		return nil
	}
	return copyInto(object, out)
}

// Delete is storage.Interface. It answers the object with the revision of its
// deletion.
func (s *Storage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	s.calls.remove.Add(1)
	key, err := storage.PrepareKey(s.cfg.Prefix, key, false)
	if err != nil {
		return err
	}
	for {
		current, err := s.current(ctx, key)
		if err != nil {
			return err
		}
		if current.object == nil {
			return storage.NewKeyNotFoundError(key, 0)
		}
		object := current.object.DeepCopyObject()
		if err := preconditions.Check(key, object); err != nil {
			return err
		}
		if err := validate(ctx, object); err != nil {
			return err
		}
		if revision, done := s.replace(key, current, nil); done {
			if err := versioner.UpdateObject(object, revision); err != nil {
				return err
			}
			return copyInto(object, out)
		}
	}
}

// GuaranteedUpdate is storage.Interface.
func (s *Storage) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, _ runtime.Object) error {
	s.calls.update.Add(1)
	key, err := storage.PrepareKey(s.cfg.Prefix, key, false)
	if err != nil {
		return err
	}
	for {
		current, err := s.current(ctx, key)
		if err != nil {
			return err
		}
		input := reflect.New(reflect.TypeOf(destination).Elem()).Interface().(runtime.Object)
		switch {
		case current.object != nil:
			input = current.object.DeepCopyObject()
		case !ignoreNotFound:
			return storage.NewKeyNotFoundError(key, 0)
		}
		if err := preconditions.Check(key, input); err != nil {
			return err
		}
		// update may change its input, and must not be called under the lock.
		result, ttl, err := update(input, storage.ResponseMeta{ResourceVersion: current.revisionOrZero()})
		if err != nil {
			return err
		}
		if ttl != nil && *ttl != 0 {
			return errors.New("memstorage: a time to live is not supported; update without one and delete")
		}
		object, err := prepared(result)
		if err != nil {
			return err
		}
		if current.object != nil && sameContent(object, current.object) {
			return copyInto(current.object, destination) // nothing to write
		}
		if _, done := s.replace(key, current, object); done {
			return copyInto(object, destination)
		}
	}
}

// current is the present state of a key.
func (s *Storage) current(ctx context.Context, key string) (version, error) {
	if err := ctx.Err(); err != nil {
		return version{}, err
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.history.newest(key), nil
}

// replace writes object over the state that was looked at, or does nothing when
// another writer was faster. A nil object deletes.
func (s *Storage) replace(key string, looked version, object runtime.Object) (revision uint64, done bool) {
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.history.newest(key).revision != looked.revision {
		return 0, false
	}
	return b.commitLocked([]write{{key, object}}), true
}

func (v version) revisionOrZero() uint64 {
	if v.object == nil {
		return 0
	}
	return v.revision
}

// sameContent compares a prepared object with a stored one.
func sameContent(object, stored runtime.Object) bool {
	stored, err := prepared(stored)
	return err == nil && apiequality.Semantic.DeepEqual(object, stored)
}

// copyInto sets out to a copy of object.
func copyInto(object, out runtime.Object) error {
	from, to := reflect.ValueOf(object.DeepCopyObject()), reflect.ValueOf(out)
	if from.Type() != to.Type() {
		return fmt.Errorf("memstorage: %T was stored and %T was asked for", object, out)
	}
	to.Elem().Set(from.Elem())
	return nil
}
