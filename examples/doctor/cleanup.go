package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/freshness"
)

// cleanUp deletes the sentinel, if rvfloor wrote it, and what is left under the probe's
// prefix.
func cleanUp(ctx context.Context, client *clientv3.Client, sentinel, prefix string, out io.Writer) error {
	resp, err := client.Get(ctx, sentinel)
	if err != nil {
		return fmt.Errorf("%s could not be read: %w", sentinel, err)
	}
	for _, kv := range resp.Kvs {
		if _, err := freshness.ParseChain(kv.Value); errors.Is(err, freshness.ErrNotAChain) {
			return fmt.Errorf("%s is not rvfloor's, and left alone: %w", sentinel, err)
		}
	}
	probes, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("%s could not be read: %w", prefix, err)
	}
	found := append(resp.Kvs, probes.Kvs...)
	for _, kv := range found {
		if err := remove(ctx, client, kv); err != nil {
			return err
		}
	}
	if len(resp.Kvs) == 0 {
		fmt.Fprintf(out, "%s is not there\n", sentinel)
	} else {
		fmt.Fprintf(out, "%s is deleted; an API server with verified reads that still runs takes that for a restore, and makes it again\n", sentinel)
	}
	if len(probes.Kvs) > 0 {
		fmt.Fprintf(out, "%d keys that probes had left under %s are deleted\n", len(probes.Kvs), prefix)
	}
	return nil
}

// remove deletes a key as it was read, in the one way that kine knows.
func remove(ctx context.Context, client *clientv3.Client, kv *mvccpb.KeyValue) error {
	key := string(kv.Key)
	resp, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)).
		Then(clientv3.OpDelete(key)).Else(clientv3.OpGet(key)).Commit()
	if err == nil && !resp.Succeeded {
		err = errors.New("somebody else writes it; stop the API servers with verified reads first")
	}
	if err != nil {
		return fmt.Errorf("%s could not be deleted: %w", key, err)
	}
	return nil
}
