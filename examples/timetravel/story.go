package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rvfloor/rvfloor/internal/sides"
)

const (
	oldUID, oldNode = types.UID("the old pod"), "node-1"
	newUID, newNode = types.UID("the new pod"), "node-2"

	stock, rvfloor = 0, 1

	// healTimeout is far above the seconds in which a member catches up.
	healTimeout = time.Minute
	// relistPause is for an API server that does not say when to ask again.
	relistPause = 100 * time.Millisecond
)

var (
	sideNames    = [2]string{"stock", "rvfloor"}
	errNotHealed = fmt.Errorf("no truth from B within %v after it was healed", healTimeout)
)

// outcome is what the kubelets of both sides did.
type outcome struct {
	before    [2]answer // on the old node, through B, while all is well
	moved     [2]answer // on the new node, through A, when the pod has moved
	restarted [2]answer // on the old node, through B, while that is behind
	healed    [2]answer // the same when B has caught up
}

// tell plays the story in one world with a cluster of each kind, and shows it. The
// error says what could not be played.
func tell(ctx context.Context, open opener, kinds [2]sides.Kind, t *timeline) (got outcome, err error) {
	w, err := open(ctx)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var clusters [2]*cluster
	for i, kind := range kinds {
		c, err := openCluster(ctx, sideNames[i], kind, w)
		if err != nil {
			return got, err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		clusters[i] = c
	}
	defer w.heal() // before the clusters close, also after an error
	err = play(ctx, w, clusters, &got, t)
	return got, err
}

func play(ctx context.Context, w *world, clusters [2]*cluster, got *outcome, t *timeline) error {
	// both does the same with one side after the other.
	both := func(do func(*cluster) error) error {
		return errors.Join(do(clusters[stock]), do(clusters[rvfloor]))
	}
	// ask is a list of both kubelets.
	ask := func(event string, list func(*cluster) answer) (answers [2]answer) {
		for i, c := range clusters {
			answers[i] = list(c)
		}
		t.row(event, answers[stock].String(), answers[rvfloor].String())
		for i, a := range answers {
			t.failed(sideNames[i], a.err)
		}
		return answers
	}
	restarted := func(c *cluster) answer { return c.kubelet(ctx, c.b, oldNode, "0") }

	if err := both(func(c *cluster) error { return c.create(ctx, oldUID, oldNode) }); err != nil {
		return err
	}
	t.event("A creates web-0 on " + oldNode)
	got.before = ask("kubelet "+oldNode+" lists through B", func(c *cluster) answer { return c.kubelet(ctx, c.b, oldNode, "") })
	if err := w.lag(ctx); err != nil {
		return err
	}
	t.event(w.lagged)
	if err := both(func(c *cluster) error {
		if err := c.remove(ctx); err != nil {
			return err
		}
		return c.create(ctx, newUID, newNode)
	}); err != nil {
		return err
	}
	t.event("A deletes it, and creates web-0 on " + newNode)
	got.moved = ask("kubelet "+newNode+" lists through A", func(c *cluster) answer { return c.kubelet(ctx, c.a, newNode, "") })
	got.restarted = ask("kubelet "+oldNode+" restarts: B, RV=0", restarted)
	w.heal()
	t.event(w.healed)

	ctx, cancel := context.WithTimeoutCause(ctx, healTimeout, errNotHealed)
	defer cancel()
	got.healed = ask("kubelet "+oldNode+" asks again: B, RV=0", func(c *cluster) answer { return untilTrue(ctx, c) })
	return context.Cause(ctx)
}

// untilTrue lists as the restarted kubelet until its node runs nothing, or ctx ends.
// Where the answer says when to ask again, it asks then.
func untilTrue(ctx context.Context, c *cluster) answer {
	for {
		a := c.kubelet(ctx, c.b, oldNode, "0")
		if a.err == nil && len(a.starts) == 0 {
			return a
		}
		pause := relistPause
		if seconds := a.retryAfter(); seconds > 0 {
			pause = time.Duration(seconds) * time.Second
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return a
		}
	}
}

// check is an error that says what was not as claimed.
func (o outcome) check() error {
	var errs []error
	starts := func(who string, a answer, want ...types.UID) {
		if a.err != nil || !slices.Equal(a.starts, want) {
			errs = append(errs, fmt.Errorf("%s: %v; want the pods %q", who, a, want), a.err)
		}
	}
	for i, name := range sideNames {
		starts(name+" before", o.before[i], oldUID)
		starts(name+" on the new node", o.moved[i], newUID)
		starts(name+" when healed", o.healed[i])
	}
	starts("stock on the old node", o.restarted[stock], oldUID)
	if a := o.restarted[rvfloor]; a.err == nil || a.retryAfter() == 0 {
		errs = append(errs, fmt.Errorf("rvfloor on the old node: %v; want an error with Retry-After", a), a.err)
	}
	return errors.Join(errs...)
}
