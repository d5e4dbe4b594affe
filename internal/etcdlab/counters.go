package etcdlab

import (
	"context"
	"maps"
	"slices"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// Counts are what [Counters] has counted; the difference of two of them is what
// happened in between.
type Counts struct {
	// RPCs counts calls by full method ("/etcdserverpb.KV/Range"), unary or stream,
	// when they begin: each attempt of clientv3's retries for itself, and also what
	// still waits for a connection.
	RPCs map[string]int64
	// Ranges, Puts and Txns are their counts in RPCs. A Put or a Get inside a
	// transaction counts as the Txn that it is on the wire.
	Ranges, Puts, Txns int64
	// WatchStreams counts Watch streams opened on a connection, WatchStreamsOpen those
	// open now (its difference says how many more). Many watches can share one stream.
	WatchStreams, WatchStreamsOpen int64
	// WatchCreates, WatchCancels and ProgressRequests count messages sent on Watch
	// streams.
	WatchCreates, WatchCancels, ProgressRequests int64
	// ProgressReplies counts answers to progress requests: one message on the wire
	// each, however many watches clientv3 copies it to. ProgressNotifies counts
	// progress that names a watch, which etcd sends on its own to watches created with
	// WithProgressNotify.
	ProgressReplies, ProgressNotifies int64
}

// Sub is what was counted after earlier; methods not called since are left out.
func (c Counts) Sub(earlier Counts) Counts {
	d := Counts{
		RPCs:             map[string]int64{},
		Ranges:           c.Ranges - earlier.Ranges,
		Puts:             c.Puts - earlier.Puts,
		Txns:             c.Txns - earlier.Txns,
		WatchStreams:     c.WatchStreams - earlier.WatchStreams,
		WatchStreamsOpen: c.WatchStreamsOpen - earlier.WatchStreamsOpen,
		WatchCreates:     c.WatchCreates - earlier.WatchCreates,
		WatchCancels:     c.WatchCancels - earlier.WatchCancels,
		ProgressRequests: c.ProgressRequests - earlier.ProgressRequests,
		ProgressReplies:  c.ProgressReplies - earlier.ProgressReplies,
		ProgressNotifies: c.ProgressNotifies - earlier.ProgressNotifies,
	}
	for method, n := range c.RPCs {
		if n -= earlier.RPCs[method]; n != 0 {
			d.RPCs[method] = n
		}
	}
	return d
}

// Counters counts the RPCs of the clients that were made with its DialOptions.
// The zero value is ready; it must not be copied.
type Counters struct {
	mu      sync.Mutex
	counts  Counts // Ranges, Puts and Txns are filled in by Snapshot
	changed bell
}

// Snapshot returns the counts, all of one moment.
func (c *Counters) Snapshot() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.snapshotLocked()
}

func (c *Counters) snapshotLocked() Counts {
	s := c.counts
	s.RPCs = maps.Clone(s.RPCs)
	s.Ranges = s.RPCs[pb.KV_Range_FullMethodName]
	s.Puts = s.RPCs[pb.KV_Put_FullMethodName]
	s.Txns = s.RPCs[pb.KV_Txn_FullMethodName]
	return s
}

// Await waits until ok holds for the counts and returns them. The error is the
// cause of ctx's end.
func (c *Counters) Await(ctx context.Context, ok func(Counts) bool) (Counts, error) {
	var s Counts
	err := await(ctx, &c.mu, &c.changed, func() (bool, error) {
		s = c.snapshotLocked()
		return ok(s), nil
	})
	return s, err
}

func (c *Counters) change(f func(*Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.counts)
	c.changed.ringLocked()
}

func (c *Counters) call(method string) {
	c.change(func(n *Counts) {
		if n.RPCs == nil {
			n.RPCs = map[string]int64{}
		}
		n.RPCs[method]++
	})
}

// DialOptions make a client count here. Several clients may share one Counters.
func (c *Counters) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream)}
}

func (c *Counters) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	c.call(method)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (c *Counters) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c.call(method)
	if method != pb.Watch_Watch_FullMethodName {
		return open(ctx, desc, cc, method, opts...)
	}
	var opened, ended bool // guarded by the counters' lock; either may come first
	// OnFinish sees every end: the server's, the context's and the connection's.
	s, err := open(ctx, desc, cc, method, append(slices.Clip(opts), grpc.OnFinish(func(error) {
		c.change(func(n *Counts) {
			if ended = true; opened {
				n.WatchStreamsOpen--
			}
		})
	}))...)
	if err != nil {
		return nil, err
	}
	c.change(func(n *Counts) {
		n.WatchStreams++
		if opened = true; !ended {
			n.WatchStreamsOpen++
		}
	})
	return &countedWatch{ClientStream: s, counters: c}, nil
}

// countedWatch looks at the messages of one Watch stream.
type countedWatch struct {
	grpc.ClientStream
	counters *Counters
}

// SendMsg counts before it sends, so that whoever has seen an answer also sees its
// request counted, and takes back what could not be sent.
func (w *countedWatch) SendMsg(m any) error {
	w.sent(m, 1)
	err := w.ClientStream.SendMsg(m)
	if err != nil {
		w.sent(m, -1)
	}
	return err
}

func (w *countedWatch) sent(m any, by int64) {
	req, ok := m.(*pb.WatchRequest)
	if !ok {
		return
	}
	w.counters.change(func(n *Counts) {
		switch req.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			n.WatchCreates += by
		case *pb.WatchRequest_CancelRequest:
			n.WatchCancels += by
		case *pb.WatchRequest_ProgressRequest:
			n.ProgressRequests += by
		}
	})
}

func (w *countedWatch) RecvMsg(m any) error {
	if err := w.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	if resp, ok := m.(*pb.WatchResponse); ok && len(resp.Events) == 0 && !resp.Created && !resp.Canceled {
		w.counters.change(func(n *Counts) {
			if resp.WatchId == clientv3.InvalidWatchID {
				n.ProgressReplies++
			} else {
				n.ProgressNotifies++
			}
		})
	}
	return nil
}
