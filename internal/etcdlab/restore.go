package etcdlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// Save writes a snapshot of the cluster to a new file, as etcdctl snapshot save does.
func (c *Cluster) Save(ctx context.Context, file string) (err error) {
	client, err := c.Client(ctx, ClientConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return save(ctx, client, file)
}

func save(ctx context.Context, client *clientv3.Client, file string) error {
	data, err := client.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer data.Close()
	to, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, data)
	return errors.Join(err, to.Close())
}

// Restore makes the data of a cluster of one of a snapshot, as etcdutl snapshot restore
// does, in cfg.Dir, where there must be none; Start(cfg) runs it. Its cluster id is
// that of the cluster that was saved if that was one of one with the same Token. bump,
// where it is not 0, is added to the revision, and what is below is marked compacted.
func Restore(file string, cfg Config, bump uint64) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	c := &Cluster{cfg: cfg, dir: cfg.Dir}
	at, err := cfg.pickAddresses(c.dir, "")
	if err != nil {
		return err
	}
	return cfg.restore(0, c.dir, at, file, bump)
}

// restore makes the data of member i.
func (cfg Config) restore(i int, dir string, at addresses, file string, bump uint64) error {
	ec := cfg.member(i, dir, at)
	return snapshot.NewV3(cfg.Logger).Restore(snapshot.RestoreConfig{
		SnapshotPath:        file,
		Name:                ec.Name,
		OutputDataDir:       ec.Dir,
		PeerURLs:            []string{ec.AdvertisePeerUrls[0].String()},
		InitialCluster:      ec.InitialCluster,
		InitialClusterToken: ec.InitialClusterToken,
		RevisionBump:        bump,
		MarkCompacted:       bump != 0,
	})
}

// SnapshotRevision is the revision of the snapshot in file.
func SnapshotRevision(file string) (uint64, error) {
	status, err := snapshot.NewV3(zap.NewNop()).Status(file)
	if err != nil {
		return 0, fmt.Errorf("etcdlab: %s: %w", file, err)
	}
	return uint64(status.Revision), nil
}
