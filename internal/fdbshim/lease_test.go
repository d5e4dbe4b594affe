package fdbshim_test

import (
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

// TestLeases: all that a lease holds goes at one revision, when it is revoked or its
// time is over, and nothing that it held once.
func TestLeases(t *testing.T) {
	for name, revoke := range map[string]bool{"Revoke": true, "Expiry": false} {
		t.Run(name, func(t *testing.T) {
			_, client := serve(t, newStore(t, fdbshim.Config{}), fdbshim.Options{})
			ttl := int64(1)
			if revoke {
				ttl = 3600
			}
			granted, err := client.Grant(soon(t), ttl)
			if err != nil {
				t.Fatal(err)
			}
			w := watch(t, client, "/", clientv3.WithPrefix(), clientv3.WithFilterPut())
			const keys = 20
			for i := range keys {
				put(t, client, fmt.Sprint("/a/", i), "", clientv3.WithLease(granted.ID))
			}
			put(t, client, "/a/0", "")
			if revoke {
				if _, err := client.Revoke(soon(t), granted.ID); err != nil {
					t.Fatal(err)
				}
			}
			resp := w.next()
			if len(resp.Events) != keys-1 {
				t.Errorf("%d events, want %d", len(resp.Events), keys-1)
			}
			for _, e := range resp.Events {
				if e.Type != clientv3.EventTypeDelete || e.Kv.ModRevision != resp.Header.Revision || e.PrevKv.GetLease() != int64(granted.ID) {
					t.Errorf("at %d: %v", resp.Header.Revision, e)
				}
			}
			if _, err := client.Revoke(soon(t), granted.ID); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
				t.Errorf("revoked again: %v", err)
			}
		})
	}
}

// TestKeepAlive: a lease that is kept alive outlives another one of twice its time.
func TestKeepAlive(t *testing.T) {
	_, client := serve(t, newStore(t, fdbshim.Config{}), fdbshim.Options{})
	kept, err := client.Grant(soon(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := client.Grant(soon(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	put(t, client, "/kept", "", clientv3.WithLease(kept.ID))
	put(t, client, "/other", "", clientv3.WithLease(other.ID))
	w := watch(t, client, "/other", clientv3.WithFilterPut())
	for ended := false; !ended; {
		select {
		case <-w.out:
			ended = true
		default:
			if _, err := client.KeepAliveOnce(soon(t), kept.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if get(t, client, "/kept").Count != 1 {
		t.Error("it ended")
	}
}
