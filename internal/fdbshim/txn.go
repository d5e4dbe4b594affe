package fdbshim

import (
	"bytes"
	"cmp"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// tx is a transaction, which has the Store's lock. What it writes it sees.
type tx struct {
	store    *Store
	space    *space
	revision int64 // of what it writes
	events   []*mvccpb.Event
}

// transact runs a transaction on the revision space of a key. It returns the
// revision for the answer's header: its own, or a read version where it wrote
// nothing.
//
// What do returns an error for has not written anything.
func (s *Store) transact(key []byte, do func(*tx) error) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transactLocked(s.spaceLocked(key), do)
}

func (s *Store) transactLocked(sp *space, do func(*tx) error) (int64, error) {
	t := &tx{store: s, space: sp, revision: s.nextLocked(sp)}
	if err := do(t); err != nil {
		return 0, err
	}
	if len(t.events) == 0 {
		return s.readVersionLocked(sp), nil
	}
	s.commitLocked(sp, commit{t.revision, time.Now(), t.events})
	return t.revision, nil
}

func (t *tx) put(r *pb.PutRequest) *pb.PutResponse {
	prev := t.space.present(string(r.Key))
	kv := &mvccpb.KeyValue{Key: r.Key, Value: r.Value, Lease: r.Lease, CreateRevision: t.revision, ModRevision: t.revision, Version: 1}
	if prev != nil {
		kv.CreateRevision, kv.Version = prev.CreateRevision, prev.Version+1
	}
	t.store.attachLocked(string(r.Key), prev.GetLease(), kv.Lease)
	t.space.add(kv)
	t.events = append(t.events, &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv, PrevKv: prev})
	resp := &pb.PutResponse{}
	if r.PrevKv {
		resp.PrevKv = prev
	}
	return resp
}

func (t *tx) deleteRange(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	resp := &pb.DeleteRangeResponse{}
	for _, prev := range t.space.snapshot(r.Key, r.RangeEnd, t.revision) {
		gone := &mvccpb.KeyValue{Key: prev.Key, ModRevision: t.revision}
		t.store.attachLocked(string(prev.Key), prev.Lease, 0)
		t.space.add(gone)
		t.events = append(t.events, &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: gone, PrevKv: prev})
		resp.Deleted++
		if r.PrevKv {
			resp.PrevKvs = append(resp.PrevKvs, prev)
		}
	}
	return resp
}

func (t *tx) txn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp := &pb.TxnResponse{Succeeded: true}
	for _, c := range r.Compare {
		resp.Succeeded = resp.Succeeded && t.holds(c)
	}
	ops := r.Failure
	if resp.Succeeded {
		ops = r.Success
	}
	for _, op := range ops { // before anything is written
		if err := t.store.checkLocked(op); err != nil {
			return nil, err
		}
	}
	for _, op := range ops {
		result := &pb.ResponseOp{}
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			result.Response = &pb.ResponseOp_ResponseRange{ResponseRange: t.space.read(op.RequestRange, t.revision)}
		case *pb.RequestOp_RequestPut:
			result.Response = &pb.ResponseOp_ResponsePut{ResponsePut: t.put(op.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			result.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: t.deleteRange(op.RequestDeleteRange)}
		}
		resp.Responses = append(resp.Responses, result)
	}
	return resp, nil
}

// checkLocked says why an operation cannot be done.
func (s *Store) checkLocked(op *pb.RequestOp) error {
	put := op.GetRequestPut()
	switch {
	case op.GetRequestTxn() != nil:
		return unimplemented("a transaction in a transaction")
	case op.GetRequestRange().GetRevision() != 0:
		return unimplemented("a range at a revision in a transaction")
	case put.GetIgnoreValue() || put.GetIgnoreLease():
		return unimplemented("a put that keeps the value or the lease")
	case put.GetLease() != 0 && s.leases[put.GetLease()] == nil:
		return rpctypes.ErrGRPCLeaseNotFound
	case put != nil && len(put.Key) == 0:
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// holds tells whether a comparison is true, of every key that it names.
func (t *tx) holds(c *pb.Compare) bool {
	kvs := t.space.snapshot(c.Key, c.RangeEnd, t.revision)
	if len(kvs) == 0 {
		if c.Target == pb.Compare_VALUE {
			return false // also "not equal", as in etcd
		}
		kvs = []*mvccpb.KeyValue{{}}
	}
	for _, kv := range kvs {
		order := 0
		switch c.Target {
		case pb.Compare_VERSION:
			order = cmp.Compare(kv.Version, c.GetVersion())
		case pb.Compare_CREATE:
			order = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
		case pb.Compare_MOD:
			order = cmp.Compare(kv.ModRevision, c.GetModRevision())
		case pb.Compare_LEASE:
			order = cmp.Compare(kv.Lease, c.GetLease())
		case pb.Compare_VALUE:
			order = bytes.Compare(kv.Value, c.GetValue())
		}
		holds := map[pb.Compare_CompareResult]bool{
			pb.Compare_EQUAL: order == 0, pb.Compare_NOT_EQUAL: order != 0,
			pb.Compare_GREATER: order > 0, pb.Compare_LESS: order < 0,
		}
		if !holds[c.Result] {
			return false
		}
	}
	return true
}
