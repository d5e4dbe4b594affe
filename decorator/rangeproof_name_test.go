package decorator

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// identities are ways to tell the objects of tenants apart. Those that can name each of them
// notice more of a range that lies.
var identities = map[string]struct {
	keyFunc func(runtime.Object) (string, error)
	uid     func(tenant string) types.UID
	exact   bool
}{
	"KeyFunc":       {tenantKey, func(string) types.UID { return "" }, true},
	"KeyFunc fails": {func(runtime.Object) (string, error) { return "", errors.New("no key") }, ofTenant, true},
	"UIDs":          {nil, ofTenant, true},
	"nothing":       {nil, func(string) types.UID { return "" }, false},
}

func ofTenant(tenant string) types.UID { return types.UID("of " + tenant) }

func tenantPath(tenant string) string { return "/pods/" + tenant + "/ns/x" }

// TestRangeProofPassesObjectsOfOneName: objects of one namespace and name under different
// keys come and go before a proof, in whatever order.
func TestRangeProofPassesObjectsOfOneName(t *testing.T) {
	for name, id := range identities {
		put := func(r *rig, tenants ...string) {
			var all []memstorage.Change
			for _, tenant := range tenants {
				all = append(all, memstorage.Put(tenantPath(tenant), tenanted(tenant, "x", id.uid(tenant))))
			}
			r.txn(all...)
		}
		gone := func(r *rig, tenants ...string) {
			var all []memstorage.Change
			for _, tenant := range tenants {
				all = append(all, memstorage.Delete(tenantPath(tenant)))
			}
			r.txn(all...)
		}
		for order, happen := range map[string]func(r *rig){
			"nested": func(r *rig) { put(r, "a"); put(r, "b"); gone(r, "b"); gone(r, "a") },
			"crossed": func(r *rig) {
				put(r, "a")
				put(r, "b")
				put(r, "a")
				gone(r, "a")
				put(r, "b")
				gone(r, "b")
			},
			"at once":    func(r *rig) { put(r, "a", "b"); gone(r, "b", "a") },
			"one by one": func(r *rig) { put(r, "a"); gone(r, "a"); put(r, "b"); gone(r, "b") },
		} {
			t.Run(name+"/"+order, func(t *testing.T) {
				bubble(t, setup{cfg: Config{Strategy: StrategyRangeProof}, proves: true, keyFunc: id.keyFunc}, func(t *testing.T, r *rig) {
					r.cached.DropProgress(true)
					r.put("a")
					settled()
					r.cached.Hold()
					happen(r)
					wantNames(t, r.lists(), "a")
					r.cached.Release()
					settled()
					r.put("b")
					wantNames(t, r.lists(), "a", "b")
					if got := r.breaches(); got != 0 {
						t.Errorf("%v breaches", got)
					}
				})
			})
		}
	}
}

// TestRangeProofOfOneNameDisproved: a range that lies is found out although what came and
// what went have one namespace and name, where anything tells them apart.
func TestRangeProofOfOneNameDisproved(t *testing.T) {
	for name, id := range identities {
		if !id.exact {
			continue
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{cfg: Config{Strategy: StrategyRangeProof}, proves: true, keyFunc: id.keyFunc}, func(t *testing.T, r *rig) {
				r.cached.DropProgress(true)
				r.txn(memstorage.Put(tenantPath("a"), tenanted("a", "x", id.uid("a"))))
				settled()
				r.cached.Hold()
				r.proving = func(_ context.Context, p Proof) (Proof, error) {
					return Proof{Revision: p.Revision, Count: 1}, nil
				}
				r.txn(memstorage.Put(tenantPath("b"), tenanted("b", "x", id.uid("b"))))
				r.txn(memstorage.Delete(tenantPath("a")))
				wantNames(t, r.lists(), "x") // what a lie can do
				r.cached.Release()
				settled()
				if got := r.breaches(); got != 1 {
					t.Errorf("%v breaches, want one", got)
				}
			})
		})
	}
}
