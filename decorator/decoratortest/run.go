package decoratortest

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rvfloor/rvfloor/internal/awake"
)

const (
	// brief is the deadline of a read that is not expected to be answered: long for
	// one that would be answered wrongly, which takes no waiting.
	brief = 150 * time.Millisecond
	// atOnce is what no call may take that has nothing to wait for, or whose deadline
	// is over, of the time in which the process ran. Stock keeps such callers for 3 s.
	atOnce = 2 * time.Second
	// longest is how long a read may take that has to be answered in the end.
	longest = 30 * time.Second
)

// Run checks what package decorator promises, each test on a Harness of its own. It
// works in real time, and runs one test after the other.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, c := range []struct {
		name  string
		check func(*rig)
	}{
		{"Holds", checkHolds},
		{"Gate", checkGate},
		{"JoinRule", checkJoinRule},
		{"JoinRuleInFlight", checkJoinRuleInFlight},
		{"Completeness", checkCompleteness},
		{"Follows", checkFollows},
		{"ExitCheck", checkExit},
		{"FutureCheck", checkFuture},
		{"Errors", checkErrors},
		{"Monotonic", checkMonotonic},
		{"PassThrough", checkPassThrough},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t)
			t.Cleanup(h.ReleaseWatch) // before what newHarness registered
			clock := awake.Start()
			defer clock.Stop()
			c.check(&rig{h, t, clock})
		})
	}
}

// rig is a Harness with what the checks do to it again and again.
type rig struct {
	Harness
	t     *testing.T
	clock *awake.Clock
}

// in is the rig of a subtest.
func (r *rig) in(t *testing.T) *rig { return &rig{r.Harness, t, r.clock} }

// broken reports what is wrong in the three parts that whoever reads it needs.
func (r *rig) broken(promised, got, probably string) {
	r.t.Helper()
	r.t.Errorf("\npromised: %s\n     got: %s\nprobably: %s", promised, got, probably)
}

// skip says which method would have let the test run.
func (r *rig) skip(what, method, helper string) {
	r.t.Helper()
	r.t.Skipf("NOT TESTED: %s. Give the Harness the method %s to have it tested%s.", what, method, helper)
}

// retryable says whether err tells an API client to try again later, and why not.
func retryable(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return errors.New("it is no API status, so an API server would answer 500")
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds < 1 {
		return errors.New("it has no Retry-After, so clients would try again at once or not at all")
	}
	if isTooLarge(err) {
		return errors.New("it has the cause or the text of TooLargeResourceVersion, on which client-go's watch-list tries again at once, for ever")
	}
	return nil
}

// eventually reads until there is an answer, trying again as clients do.
func (r *rig) eventually(c call, w write) view {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	for {
		v, err := c.read(ctx, r, w)
		if err == nil {
			return v
		}
		if ctx.Err() != nil || !inconclusive(err) && retryable(err) != nil {
			r.t.Fatalf("%s: no answer, with nothing held back: %v", c.name, err)
		}
		// A Retry-After is a second; caches that are still being filled need less.
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// revisionOf parses a resourceVersion of the Store's.
func (r *rig) revisionOf(resourceVersion string) uint64 {
	r.t.Helper()
	revision, err := r.Store().Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		r.t.Errorf("resourceVersion %q: %v", resourceVersion, err)
	}
	return revision
}
