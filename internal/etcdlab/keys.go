package etcdlab

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// MaxTxnOps is how many operations etcd takes in one transaction unless it is told
// otherwise, and how many keys [PutMany] writes at one revision.
const MaxTxnOps = 128

// PutMany writes the n keys prefix+"000000", prefix+"000001" and so on, each its own
// value, in transactions of up to [MaxTxnOps] keys: all keys of one transaction get
// one revision. A lease that is not 0 owns the keys. It returns the revision of
// the last transaction, or etcd's error, in which case earlier ones may have been
// written.
func PutMany(ctx context.Context, client *clientv3.Client, prefix string, n int, lease clientv3.LeaseID) (int64, error) {
	if n < 1 {
		return 0, fmt.Errorf("etcdlab: PutMany of n = %d keys; ask for at least one", n)
	}
	var revision int64
	for start := 0; start < n; start += MaxTxnOps {
		var puts []clientv3.Op
		for i := start; i < min(n, start+MaxTxnOps); i++ {
			key := fmt.Sprintf("%s%06d", prefix, i)
			puts = append(puts, clientv3.OpPut(key, key, clientv3.WithLease(lease)))
		}
		resp, err := client.Txn(ctx).Then(puts...).Commit()
		if err != nil {
			return 0, err
		}
		revision = resp.Header.Revision
	}
	return revision, nil
}

// LeaseMany grants a lease of ttl, rounded up to seconds as etcd counts them, and
// writes n keys under it as [PutMany] does. The keys end together, at one revision:
// by [RevokeLease], or after ttl.
func LeaseMany(ctx context.Context, client *clientv3.Client, prefix string, n int, ttl time.Duration) (lease clientv3.LeaseID, revision int64, err error) {
	granted, err := client.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, 0, err
	}
	revision, err = PutMany(ctx, client, prefix, n, granted.ID)
	return granted.ID, revision, err
}

// RevokeLease ends a lease and with it all its keys, and returns the one revision
// at which they went.
func RevokeLease(ctx context.Context, client *clientv3.Client, lease clientv3.LeaseID) (int64, error) {
	resp, err := client.Revoke(ctx, lease)
	if err != nil {
		return 0, err
	}
	return resp.Header.Revision, nil
}
