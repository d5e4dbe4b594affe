package freshness

import (
	"context"
	"errors"
	"fmt"
	"path"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// SentinelKey returns the key of the sentinel for an API server that keeps its
// objects under prefix: "<prefix>/rvfloor/sentinel". All servers that share the
// prefix share the key.
func SentinelKey(prefix string) string { return path.Join(prefix, "rvfloor", "sentinel") }

// Sentinel is the Source for etcd and for what speaks its protocol. It reads
// one key, linearizably, and takes the revision of the answer's header. The key
// is there so that the read finds something: kine has answered a read that finds
// nothing from a counter in memory, which is behind when another process writes,
// while a read that finds something takes the revision from the same statement
// as the value.
//
// The key's value is a Chain, the witness to the backend's history. The first
// read that misses the key creates it. It is written only by transactions that
// kine knows: put it if its mod revision is 0; put it if its mod revision is n,
// else read it.
//
// A client that may read the key and not write it (a role in etcd) reads it all
// the same, or misses it all the same; so does one that meets etcd's space quota.
// What is lost then, unless another server creates the key and appends to it, is
// the witness: a restore is noticed only while the revision is below one that
// was seen. Nudge is lost too. See Writable.
type Sentinel struct {
	client *clientv3.Client
	key    string
	writes permission
}

// NewSentinel returns the Sentinel that reads and keeps key (see SentinelKey)
// through client, which stays its owner's to close. A missing client or key is
// reported by the first read.
func NewSentinel(client *clientv3.Client, key string) *Sentinel {
	return &Sentinel{client: client, key: key}
}

// Read makes one linearizable read of the sentinel. Where the key is missing it
// is created, and the revision of that write is the answer: no less a floor,
// as no write that was acknowledged before has a higher one.
func (s *Sentinel) Read(ctx context.Context) (Reading, error) {
	// Missing it, being told that it is there, and missing it again means that
	// somebody deletes it as fast as we create it.
	for range 2 {
		kv, header, err := s.get(ctx)
		if err != nil {
			return Reading{}, err
		}
		if kv != nil {
			return reading(header, kv.Value), nil
		}
		created, value, err := s.create(ctx)
		switch {
		case errors.Is(err, ErrReadOnly):
			return reading(header, nil), nil
		case err != nil:
			return Reading{}, err
		case created != nil:
			made := reading(created, value)
			made.Created = true
			return made, nil
		}
	}
	return Reading{}, fmt.Errorf("freshness: sentinel %q: somebody keeps deleting it: let it stay, or use another key", s.key)
}

// PromptRead says that Read returns when its context ends: calls of etcd's client
// do.
func (*Sentinel) PromptRead() {}

var _ PromptSource = (*Sentinel)(nil)

// reading puts an answer together. value is nil only where the key is missing.
func reading(header *etcdserverpb.ResponseHeader, value []byte) Reading {
	return Reading{
		Revision:  uint64(max(0, header.GetRevision())),
		Witness:   value,
		ClusterID: header.GetClusterId(),
		MemberID:  header.GetMemberId(),
		RaftTerm:  header.GetRaftTerm(),
	}
}

// get reads the key. The key is nil when it is missing, and its value never is.
func (s *Sentinel) get(ctx context.Context) (*mvccpb.KeyValue, *etcdserverpb.ResponseHeader, error) {
	if s.client == nil || s.key == "" {
		return nil, nil, errors.New("freshness: NewSentinel was called without a client or a key: pass both, and SentinelKey for the key")
	}
	resp, err := s.client.Get(ctx, s.key)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil, nil, fmt.Errorf("freshness: sentinel %q: grant the etcd role read on the key (or readwrite, see Sentinel): %w", s.key, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("freshness: sentinel %q: %w", s.key, err)
	}
	return first(resp.Kvs), resp.Header, nil
}

// first returns the one key of an answer, or nil. The wire does not tell an
// empty value from none; here it is one.
func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	if kvs[0].Value == nil {
		kvs[0].Value = []byte{}
	}
	return kvs[0]
}
