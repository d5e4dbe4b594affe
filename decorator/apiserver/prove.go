package apiserver

import (
	"context"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/decorator"
)

// objectsPrefix is that of a resource's keys in etcd.
func objectsPrefix(s spec) string { return path.Join("/", s.config.Prefix, s.prefix) + "/" }

// prover reads what has become of the keys under prefix. etcd counts all of them, whatever it filters and however few it is
// to answer, and reads their values all the same; one answer is of one revision.
func prover(kv clientv3.KV, prefix string) decorator.Prover {
	return func(ctx context.Context, since uint64) (decorator.Proof, error) {
		resp, err := kv.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithMinModRev(int64(since)+1), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return decorator.Proof{}, err
		}
		return decorator.Proof{Revision: uint64(max(0, resp.Header.GetRevision())), Newer: len(resp.Kvs) > 0, Count: resp.Count}, nil
	}
}
