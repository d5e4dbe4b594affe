package apiserver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/rvfloor/rvfloor/decorator"
)

// By every strategy a LIST shows what another server has acknowledged: of this resource, of another, and that an object
// has gone.
func TestStrategies(t *testing.T) {
	etcd := startEtcd(t)
	config := func() *Backends { return newBackends(t, Config{Strategy: decorator.StrategyRequest}) }
	elsewhere := config().RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...)))
	writes, services := newRegistry(t, "pods", elsewhere), newRegistry(t, "services", elsewhere)
	for _, strategy := range decorator.Strategies() {
		t.Run(string(strategy), func(t *testing.T) {
			b := newBackends(t, Config{Strategy: strategy})
			reads := newRegistry(t, "pods", b.RESTOptionsGetter(stock(storageConfig(etcd.Endpoints()...))))
			want := list(t, reads)
			for i := range 20 {
				create(t, services, fmt.Sprintf("%s-%d", strategy, i))
				require.Equal(t, want, list(t, reads))
				name := fmt.Sprintf("%s-%02d", strategy, i)
				create(t, writes, name)
				require.ElementsMatch(t, append(want, name), list(t, reads))
				_, _, err := writes.Delete(inNamespace(t.Context()), name, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
				require.NoError(t, err)
				require.Equal(t, want, list(t, reads))
			}
			status := b.status().Backends[0]
			if strategy != decorator.StrategyAuto {
				assert.Equal(t, strategy, status.Strategy.Name)
			}
			assert.Empty(t, status.Strategy.Failures)
		})
	}
}
