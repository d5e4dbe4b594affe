package decorator

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
)

// lying makes a rig whose cache answers lists with a resourceVersion of the test's
// choice.
func lying(t *testing.T, cfg Config, says string, f func(*testing.T, *rig)) {
	t.Helper()
	liar := &spy{onList: func(_ context.Context, _ storage.ListOptions, list runtime.Object, pass func() error) error {
		if err := pass(); err != nil {
			return err
		}
		accessor, err := meta.ListAccessor(list)
		if err == nil {
			accessor.SetResourceVersion(says)
		}
		return err
	}}
	s := setup{cfg: cfg, inner: func(inner storage.Interface) storage.Interface {
		liar.Interface = inner
		return liar
	}}
	bubble(t, s, func(t *testing.T, r *rig) {
		r.put("a")
		r.put("a")
		settled()
		f(t, r)
	})
}

// TestBreach: a list that comes back from below its floor never reaches the caller.
func TestBreach(t *testing.T) {
	for name, says := range map[string]string{"below": "2", "no number": "newest", "none": "", "zero": "0"} {
		for _, rv := range []string{"", "0", "3"} {
			t.Run(name+"/rv "+rv, func(t *testing.T) {
				lying(t, Config{}, says, func(t *testing.T, r *rig) {
					_, err := list(t.Context(), r.store, everything(rv))
					checkStatus(t, err, 504)
					checkChain(t, err, ErrNotFresh, nil)
					if got := r.breaches(); got != 1 {
						t.Errorf("%v breaches were counted, want 1", got)
					}
				})
			})
		}
	}
}

// TestBreachPolicies: a breach is answered as any read that could not be verified.
func TestBreachPolicies(t *testing.T) {
	for policy, row := range map[OnUnverified]struct {
		rv     string
		warned int
	}{UnverifiedDirect: {"3", 0}, UnverifiedQuorum: {"3", 0}, UnverifiedStale: {"2", 1}} {
		t.Run(string(policy), func(t *testing.T) {
			lying(t, Config{OnUnverified: policy}, "2", func(t *testing.T, r *rig) {
				told := &warnings{}
				pods, err := list(warning.WithWarningRecorder(t.Context(), told), r.store, everything(""))
				if err != nil || pods.ResourceVersion != row.rv || !slices.Equal(names(pods), []string{"a"}) {
					t.Errorf("got %q at %s, %v; want a at %s", names(pods), pods.ResourceVersion, err, row.rv)
				}
				if len(told.told()) != row.warned || r.breaches() != 1 {
					t.Errorf("warned %q and counted %v breaches", told.told(), r.breaches())
				}
			})
		})
	}
}

// TestNoBreachWithoutLies: what is counted above is not counted otherwise.
func TestNoBreachWithoutLies(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		r.put("a")
		for _, rv := range []string{"", "0", "2"} {
			if _, err := list(t.Context(), r.store, everything(rv)); err != nil {
				t.Error(err)
			}
		}
		if r.breaches() != 0 {
			t.Errorf("%v breaches were counted", r.breaches())
		}
	})
}
