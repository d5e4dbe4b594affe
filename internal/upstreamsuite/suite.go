package upstreamsuite

import (
	"context"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/etcd3"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// testCase is one run of one of upstream's checks, over a store of its own.
type testCase struct {
	name string
	// options change the set-up; nil: the default one.
	options []func(*SetupOptions)
	run     func(ctx context.Context, t *testing.T, s Setup)
}

// group is a set of cases that want the process-wide switches alike, so that they may run beside each other.
type group struct {
	name string
	// alone runs the cases one by one: they switch gates themselves, or hurry against a time-out that is built into them.
	alone bool
	// gate is set to value for the whole group; empty: the defaults.
	gate  featuregate.Feature
	value bool
	// badData says that data which cannot be decoded is part of the cases: elsewhere upstream's storage panics on it in tests.
	badData bool
	cases   []testCase
}

// Run runs every check that upstream runs over its own cached store, each under upstream's feature gates, and then fails if
// goroutines are left. It switches process-wide gates, so t must not be parallel.
func Run(t *testing.T, newSetup SetupFunc) {
	if !clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient) {
		// Upstream has the cache's first lists fail then; with the gate on the cache makes none, and there is nothing to inject.
		t.Fatal("the suite is written for the client feature WatchListClient, which is off")
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(),
		// The Cacher's wait for a revision leaves its timer running for the full 3 s, also when the revision comes earlier.
		goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshLocked.func2"))
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			if g.gate != "" {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, g.gate, g.value)
			}
			if g.badData {
				etcd3.TestOnlySetFatalOnDecodeError(t, false)
			}
			for _, c := range g.cases {
				t.Run(c.name, func(t *testing.T) {
					if !g.alone {
						t.Parallel()
					}
					opts := defaultOptions()
					for _, change := range c.options {
						change(&opts)
					}
					s := newSetup(t, opts)
					s.check(t)
					c.run(t.Context(), t, s)
				})
			}
		})
	}
}

func groups() []group {
	all := []group{
		{name: "Write", cases: writeCases()},
		{name: "Delete", cases: deleteCases()},
		{name: "UnreadableObjects", gate: features.AllowUnsafeMalformedObjectDeletion, value: true, badData: true, cases: unreadableCases()},
		{name: "Get", alone: true, cases: getCases()},
		{name: "Lists", cases: listCases()},
		{name: "Watch", cases: watchCases()},
		{name: "InitialEvents", alone: true, cases: initialEventsCases()},
	}
	for _, snapshots := range []bool{true, false} {
		all = append(all, group{
			name: fmt.Sprintf("ListFromCacheSnapshot=%v", snapshots), gate: features.ListFromCacheSnapshot, value: snapshots,
			cases: snapshotCases(snapshots),
		})
	}
	for _, sizes := range []bool{true, false} {
		all = append(all, group{
			name: fmt.Sprintf("SizeBasedListCostEstimate=%v", sizes), gate: features.SizeBasedListCostEstimate, value: sizes,
			cases: statsCases(sizes),
		})
	}
	return all
}
