package apiserver

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
)

// However long etcd was gone, it is tried again soon.
func TestReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var tries []time.Time
		tc := storageConfig("http://127.0.0.1:1").Transport
		tc.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
			return func(context.Context, string, string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				tries = append(tries, time.Now())
				return nil, errors.New("down")
			}, nil
		}
		cfg, err := clientConfig(tc)
		require.NoError(t, err)
		client, err := clientv3.New(cfg)
		require.NoError(t, err)
		client.ActiveConnection().Connect()
		time.Sleep(10 * time.Minute)
		require.NoError(t, client.Close())
		synctest.Wait()
		require.NotEmpty(t, tries)
		for i := 1; i < len(tries); i++ {
			assert.LessOrEqual(t, tries[i].Sub(tries[i-1]), maxReconnect*6/5, "try %d", i)
		}
		assert.Greater(t, len(tries), 200)
	})
}
