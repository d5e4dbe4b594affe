package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// written is what a read that begins now must show.
type written struct {
	kind
	name     string
	version  string // the object's resourceVersion; empty: it was deleted
	revision int64  // etcd's when the write was acknowledged
}

// seen is what a read showed.
type seen struct {
	version  string
	revision int64 // of the answer; 0: it says none
}

func (s seen) misses(w written) bool {
	return s.version != w.version || s.revision != 0 && s.revision < w.revision
}

// readFunc asks for what was written.
type readFunc func(context.Context, dynamic.ResourceInterface, written) (seen, error)

const listZero = "LIST rv=0"

// reads are done after each write, all at once.
var reads = map[string]readFunc{
	"LIST":               list("", false),
	listZero:             list("0", false),
	"LIST by name":       list("", true),
	"LIST by name, rv=0": list("0", true),
	"GET":                get(""),
	"GET rv=0":           get("0"),
	"informer":           startInformer(true),
	"informer, classic":  startInformer(false),
}

func list(version string, byName bool) readFunc {
	return func(ctx context.Context, server dynamic.ResourceInterface, w written) (seen, error) {
		options := metav1.ListOptions{ResourceVersion: version}
		if byName {
			options.FieldSelector = "metadata.name=" + w.name
		}
		list, err := server.List(ctx, options)
		if err != nil {
			return seen{}, err
		}
		var s seen
		for _, item := range list.Items {
			if item.GetName() == w.name {
				s.version = item.GetResourceVersion()
			}
		}
		s.revision, err = strconv.ParseInt(list.GetResourceVersion(), 10, 64)
		return s, err
	}
}

func get(version string) readFunc {
	return func(ctx context.Context, server dynamic.ResourceInterface, w written) (seen, error) {
		object, err := server.Get(ctx, w.name, metav1.GetOptions{ResourceVersion: version})
		if apierrors.IsNotFound(err) {
			return seen{}, nil
		}
		if err != nil {
			return seen{}, err
		}
		return seen{version: object.GetResourceVersion()}, nil
	}
}

// write creates, changes twice and deletes an object, again and again until it is over
// and at least once, and reads after each write.
func (l *lateWatch) write(ctx context.Context, k kind, name string, over func() bool) error {
	server := k.of(l.near)
	var object *unstructured.Unstructured
	for n := 0; n < 4 || !over(); n++ {
		var err error
		switch n % 4 {
		case 0:
			object, err = server.Create(ctx, k.object(name), metav1.CreateOptions{})
		case 3:
			object, err = &unstructured.Unstructured{}, server.Delete(ctx, name, metav1.DeleteOptions{})
		default:
			object.SetLabels(map[string]string{"write": strconv.Itoa(n)})
			object, err = server.Update(ctx, object, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
		// A delete's answer has no resourceVersion.
		now, err := l.etcd.Get(ctx, k.prefix())
		if err != nil {
			return err
		}
		if err := l.readAll(ctx, written{k, name, object.GetResourceVersion(), now.Header.Revision}); err != nil {
			return err
		}
	}
	return nil
}

// readAll does all kinds of reads at once.
func (l *lateWatch) readAll(ctx context.Context, w written) error {
	errs := make([]error, len(reads))
	var wg sync.WaitGroup
	for i, name := range slices.Collect(maps.Keys(reads)) {
		wg.Go(func() {
			begun := time.Now()
			s, err := reads[name](ctx, w.of(l.far), w)
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", name, err)
				return
			}
			l.count(name, w, s, time.Since(begun))
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// count adds a read to the figures.
func (l *lateWatch) count(name string, w written, s seen, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.reads[name]
	t.count++
	t.slowest = max(t.slowest, took)
	if s.misses(w) {
		t.missed++
		t.example = fmt.Sprintf("%s has version %q at revision %d, the read %q at revision %d", w.name, w.version, w.revision, s.version, s.revision)
	}
	l.reads[name] = t
}
