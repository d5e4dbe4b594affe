package faultlab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// crowding is the fault of a user who lists more than anybody should.
const crowding = "another user lists without end"

// first is who makes all calls that are judged, and second who lists without end.
var (
	first  = &user.DefaultInfo{Name: "first", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	second = &user.DefaultInfo{Name: "second", Groups: []string{user.AllAuthenticated}}
)

// callsOfSecond is how many lists of the second user a server has at once: more than the
// places there are for lists of one resource past its cache.
const callsOfSecond = 12

// crowdOut lets the second user list everything on all servers, no list like another and so
// none shared. It returns when each server has answered one, or refused it.
func crowdOut(ctx context.Context, l *lab, _ *rand.Rand) (func(context.Context) error, error) {
	listing, stop := context.WithCancel(request.WithUser(l.life, second))
	var lists sync.WaitGroup
	end := func(context.Context) error {
		stop()
		lists.Wait()
		return nil
	}
	for _, s := range l.servers {
		began := make(chan struct{})
		once := sync.OnceFunc(func() { close(began) })
		for i := range callsOfSecond {
			lists.Go(func() {
				for n := 0; listing.Err() == nil; n++ {
					if l.listAll(listing, s, fmt.Sprintf("%d-%d", i, n)) != nil {
						sleep(listing, pause)
					}
					once()
				}
			})
		}
		select {
		case <-began:
		case <-ctx.Done():
			return end, context.Cause(ctx)
		}
	}
	return end, nil
}

// listAll is a list of all pods, but for what has a label that none has.
func (l *lab) listAll(ctx context.Context, s *server, unlike string) error {
	requirement, err := labels.NewRequirement("none", selection.NotEquals, []string{unlike})
	if err != nil {
		return err
	}
	opts := sides.Everything("")
	opts.Predicate.Label, opts.Predicate.GetAttrs = labels.NewSelector().Add(*requirement), sides.PodAttrs
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.store.GetList(ctx, sides.PodPrefix, opts, &example.PodList{})
}
