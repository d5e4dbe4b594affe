package decorator

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rvfloor/rvfloor/decorator/probe"
)

// etcdSource is a Source that reads floors through an etcd client, as freshness.Sentinel does.
type etcdSource interface {
	Etcd() (client *clientv3.Client, key string)
}

// connectedSource is a Source that hears when its connection is lost or made, likewise.
type connectedSource interface {
	// Connections calls changed for each, and returns when ctx ends.
	Connections(ctx context.Context, changed func())
}

// defaultProbe returns what looks at a backend where the Config says nothing of it, or nil where
// nothing can: unsure counts as unsafe, and of an etcd-speaking backend that nobody has looked
// at nothing is sure. A storage that is reached in another way vouches for itself, by its
// bookmarks or a progress.Tap.
func (c Config) defaultProbe() Prober {
	source, ok := c.Source.(etcdSource)
	if !ok || c.Strategy != StrategyAuto {
		return nil
	}
	client, key := source.Etcd()
	if client == nil || client.ActiveConnection() == nil || key == "" {
		return nil
	}
	return probe.For(client, probe.PrefixFor(key))
}

// followConnections doubts the backend's history each time that the Source's connection was
// lost or made, until the Backend is closed.
func (b *Backend) followConnections() {
	source, ok := b.cfg.Source.(connectedSource)
	if !ok {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	b.following.Go(func() { source.Connections(ctx, b.Doubt) })
	b.unfollow = end
}
