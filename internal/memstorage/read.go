package memstorage

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Get is storage.Interface: a linearizable read.
func (s *Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	s.calls.get.Add(1)
	key, err := storage.PrepareKey(s.cfg.Prefix, key, false)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := notBelow(opts.ResourceVersion, b.history.revision); err != nil {
		return err
	}
	object := b.history.newest(key).object
	switch {
	case object != nil:
		return copyInto(object, out)
	case opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	}
	return storage.NewKeyNotFoundError(key, 0)
}

// GetList is storage.Interface: a linearizable read, or one of the history.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	s.calls.list.Add(1)
	key, err := storage.PrepareKey(s.cfg.Prefix, key, opts.Recursive)
	if err != nil {
		return err
	}
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	exact, start, err := storage.ValidateListOptions(key, versioner, opts)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	found, revision, err := s.find(key, uint64(exact), start, opts)
	if err != nil {
		return err
	}
	limit := opts.Predicate.Limit
	last, more := "", false
	selected := reflect.MakeSlice(items.Type(), 0, 0)
	for _, e := range found {
		if more = limit > 0 && int64(selected.Len()) >= limit; more {
			break
		}
		last = e.key
		// As in etcd3, an object whose attributes cannot be had does not match.
		if matches, err := opts.Predicate.Matches(e.object); err == nil && matches {
			if selected, err = appendTo(selected, e.object.DeepCopyObject()); err != nil {
				return err
			}
		}
	}
	items.Set(selected)
	token, remaining, err := storage.PrepareContinueToken(last, key, int64(revision), int64(len(found)), more, opts)
	if err != nil {
		return err
	}
	return versioner.UpdateList(list, revision, token, remaining)
}

// find is what a list chooses from, and the revision of that.
func (s *Storage) find(key string, exact uint64, start string, opts storage.ListOptions) ([]entry, uint64, error) {
	b := s.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &b.history
	revision := h.revision
	switch {
	case exact > h.revision:
		return nil, 0, storage.NewTooLargeResourceVersionError(exact, h.revision, 0)
	case exact > 0 && exact < h.compacted:
		return nil, 0, expired(start, key)
	case exact > 0:
		revision = exact
	default:
		if err := notBelow(opts.ResourceVersion, h.revision); err != nil {
			return nil, 0, err
		}
	}
	if opts.Recursive {
		return h.under(key, start, revision), revision, nil
	}
	if v := h.at(key, revision); v.object != nil {
		return []entry{{key, v.object}}, revision, nil
	}
	return nil, revision, nil
}

// notBelow refuses a least resourceVersion that does not exist yet.
func notBelow(least string, revision uint64) error {
	n, err := versioner.ParseResourceVersion(least)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if n > revision {
		return storage.NewTooLargeResourceVersionError(n, revision, 0)
	}
	return nil
}

// expired is the 410 of a list from the compacted history. Of a list in pages it
// carries a token to go on at the newest revision. Upstream's suite wants these
// texts.
func expired(start, key string) error {
	if start == "" {
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	err := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
	if token, encodeErr := storage.EncodeContinue(start, key, -1); encodeErr == nil {
		err.ErrStatus.ListMeta.Continue = token
	}
	return err
}

func itemsOf(list runtime.Object) (reflect.Value, error) {
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, err
	}
	items, err := conversion.EnforcePtr(pointer)
	if err == nil && items.Kind() != reflect.Slice {
		err = fmt.Errorf("memstorage: the items of %T are no slice", list)
	}
	return items, err
}

// appendTo appends an object to a slice of structs, of pointers or of an interface.
func appendTo(items reflect.Value, object runtime.Object) (reflect.Value, error) {
	value := reflect.ValueOf(object)
	if of := items.Type().Elem(); !value.Type().AssignableTo(of) {
		if value = value.Elem(); !value.Type().AssignableTo(of) {
			return items, fmt.Errorf("memstorage: %T was stored and the list holds %v", object, of)
		}
	}
	return reflect.Append(items, value), nil
}
