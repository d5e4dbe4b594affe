package freshness

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

// Etcd returns the client and the key that NewSentinel was given, for those who have to know
// more of the backend than its revision.
func (s *Sentinel) Etcd() (client *clientv3.Client, key string) { return s.client, s.key }

// Connections calls changed each time that the client's connection was lost or made again,
// and returns when ctx ends. What was never connected is not lost.
//
// gRPC tells of the client's connections as one: with several endpoints it stays ready while
// one of them is. A restore stops them all.
func (s *Sentinel) Connections(ctx context.Context, changed func()) {
	if s.client == nil || s.client.ActiveConnection() == nil {
		return
	}
	conn := s.client.ActiveConnection()
	state, once := conn.GetState(), false
	for {
		once = once || state == connectivity.Ready
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
		// It may have been lost and made again since: then state is what it was.
		state = conn.GetState()
		if once {
			changed()
		}
	}
}
