package fdbshim

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// kvServer is etcd's KV service. It has no RangeStream.
type kvServer struct {
	pb.UnimplementedKVServer
	server *Server
}

// Range implements pb.KVServer.
func (k kvServer) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	faults := k.server.Faults()
	switch {
	case len(r.Key) == 0:
		return nil, rpctypes.ErrGRPCEmptyKey
	case r.Serializable && faults.NoSerializable:
		return nil, unimplemented("a serializable range")
	case filtered(r) && faults.NoFilters:
		return nil, unimplemented("a range by revisions")
	}
	store := k.server.store
	store.mu.Lock()
	defer store.mu.Unlock()
	sp := store.spaceLocked(r.Key)
	lagging := sp.lagging(k.server.opts.Lag)
	at := store.readVersionLocked(sp)
	switch {
	case faults.ReadsLag:
		at = lagging
	case faults.ReadsLagForOthers:
		at = max(lagging, int64(sessionOf(ctx).wrote.Load()))
	}
	of := at
	if r.Revision > 0 {
		of = r.Revision
	}
	switch {
	case of < sp.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	case of > sp.issued:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	resp := sp.read(r, of)
	if faults.MissingLags && len(r.RangeEnd) == 0 && resp.Count == 0 {
		at = lagging
	}
	resp.Header = k.server.header(at)
	return resp, nil
}

// Txn implements pb.KVServer.
func (k kvServer) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	key := firstKey(r)
	if len(key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	var resp *pb.TxnResponse
	at, err := k.server.store.transact(key, func(t *tx) (err error) {
		resp, err = t.txn(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	sessionOf(ctx).wrote.Raise(uint64(at))
	resp.Header = k.server.header(at)
	for _, op := range resp.Responses { // they have headers in etcd, too
		if found := op.GetResponseRange(); found != nil {
			found.Header = resp.Header
		}
	}
	return resp, nil
}

// firstKey is the key that a transaction names first.
func firstKey(r *pb.TxnRequest) []byte {
	for _, c := range r.Compare {
		return c.Key
	}
	for _, op := range append(r.Success[:len(r.Success):len(r.Success)], r.Failure...) {
		for _, named := range []interface{ GetKey() []byte }{op.GetRequestPut(), op.GetRequestRange(), op.GetRequestDeleteRange()} {
			if key := named.GetKey(); len(key) > 0 {
				return key
			}
		}
	}
	return nil
}

// alone runs one operation as a transaction.
func (k kvServer) alone(ctx context.Context, op *pb.RequestOp) (*pb.ResponseOp, *pb.ResponseHeader, error) {
	resp, err := k.Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{op}})
	if err != nil {
		return nil, nil, err
	}
	return resp.Responses[0], resp.Header, nil
}

// Put implements pb.KVServer.
func (k kvServer) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	done, header, err := k.alone(ctx, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r}})
	if err != nil {
		return nil, err
	}
	resp := done.GetResponsePut()
	resp.Header = header
	return resp, nil
}

// DeleteRange implements pb.KVServer.
func (k kvServer) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	done, header, err := k.alone(ctx, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}})
	if err != nil {
		return nil, err
	}
	resp := done.GetResponseDeleteRange()
	resp.Header = header
	return resp, nil
}

// Compact implements pb.KVServer. It compacts each revision space that has the
// revision, and fails where none has.
func (k kvServer) Compact(_ context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	store := k.server.store
	store.mu.Lock()
	defer store.mu.Unlock()
	sp := store.spaceLocked(nil)
	err := sp.compact(r.Revision)
	for _, other := range store.spaces {
		if other != sp && other.compact(r.Revision) == nil {
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	return &pb.CompactionResponse{Header: k.server.header(store.readVersionLocked(sp))}, nil
}
