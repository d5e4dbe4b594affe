package fdbshim

import (
	"bytes"
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// read answers a range with the state at a revision. It leaves the header to its
// caller.
func (sp *space) read(r *pb.RangeRequest, revision int64) *pb.RangeResponse {
	kvs := sp.snapshot(r.Key, r.RangeEnd, revision)
	resp := &pb.RangeResponse{Count: int64(len(kvs))} // of all, as etcd's is
	if r.CountOnly {
		return resp
	}
	kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool {
		return kv.ModRevision < r.MinModRevision || r.MaxModRevision > 0 && kv.ModRevision > r.MaxModRevision ||
			kv.CreateRevision < r.MinCreateRevision || r.MaxCreateRevision > 0 && kv.CreateRevision > r.MaxCreateRevision
	})
	sortKeys(r, kvs)
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs, resp.More = kvs[:r.Limit], true
	}
	for _, kv := range kvs {
		if r.KeysOnly {
			kv = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease}
		}
		resp.Kvs = append(resp.Kvs, kv)
	}
	return resp
}

// sortKeys puts keys, which are in the order of keys, into the order that was asked
// for.
func sortKeys(r *pb.RangeRequest, kvs []*mvccpb.KeyValue) {
	by := map[pb.RangeRequest_SortTarget]func(a, b *mvccpb.KeyValue) int{
		pb.RangeRequest_VERSION: func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.Version, b.Version) },
		pb.RangeRequest_CREATE:  func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) },
		pb.RangeRequest_MOD:     func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) },
		pb.RangeRequest_VALUE:   func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Value, b.Value) },
	}[r.SortTarget]
	if by != nil {
		slices.SortStableFunc(kvs, by)
	}
	if r.SortOrder == pb.RangeRequest_DESCEND {
		slices.Reverse(kvs)
	}
}

// filtered tells whether a range asks for keys by their revisions.
func filtered(r *pb.RangeRequest) bool {
	return r.MinModRevision != 0 || r.MaxModRevision != 0 || r.MinCreateRevision != 0 || r.MaxCreateRevision != 0
}
