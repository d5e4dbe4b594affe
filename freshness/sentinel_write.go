package freshness

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Nudge makes the backend write a revision, for one whose progress stands still
// until it does. The chain stays as it is. Another write to the sentinel that
// comes between is as good: then Nudge has nothing left to do.
//
// Its error wraps ErrReadOnly where the client may not write, in which case
// nothing was sent, or ErrNotAChain where the key holds something else.
func (s *Sentinel) Nudge(ctx context.Context) error {
	kv, _, err := s.get(ctx)
	if err != nil {
		return err
	}
	if kv == nil {
		_, _, err := s.create(ctx)
		return err
	}
	// A chain of a newer version is let be, and nudged.
	if err := checkOurs(kv.Value); err != nil {
		return s.foreign(err)
	}
	_, _, err = s.swap(ctx, kv.ModRevision, kv.Value)
	return err
}

// Append puts a new link at the end of the chain, after which every reader of
// this history finds it there, among the newest MaxChain. It goes on until it
// has won against other writers or ctx ends.
//
// Its error is as for Nudge, and wraps ErrChainVersion where another version of
// rvfloor keeps the chain in an encoding that this one cannot read. Such a value
// is not touched. After an error that comes from the connection the link may
// have been appended or not; either is fine.
func (s *Sentinel) Append(ctx context.Context) error {
	kv, _, err := s.get(ctx)
	for err == nil {
		if kv == nil {
			// The chain begins with a link of its own.
			var created *etcdserverpb.ResponseHeader
			if created, _, err = s.create(ctx); err != nil || created != nil {
				return err
			}
			kv, _, err = s.get(ctx)
			continue
		}
		chain, notOurs := ParseChain(kv.Value)
		if notOurs != nil {
			return s.foreign(notOurs)
		}
		var swapped bool
		swapped, kv, err = s.swap(ctx, kv.ModRevision, chain.extended(uint64(kv.ModRevision)).Encode())
		if swapped {
			return nil
		}
	}
	return err
}

// Writable tells whether the last write of the sentinel was let through, and if
// not, why. It is false with no error before the first write, which a sentinel
// that exists does not need. Without it the backend's history has no witness
// from this client, and progress cannot be nudged; floors are read all the same.
//
// A write that was refused is not tried again for a minute: ErrReadOnly is then
// answered from memory, so that a role without the right costs the backend
// nothing, and one that is granted it later needs no restart.
func (s *Sentinel) Writable() (bool, error) { return s.writes.state() }

// create writes the key with a chain of one link, unless it exists: then it
// returns no header. What the backend says of the revision in that case is no
// floor (kine says what it remembers).
func (s *Sentinel) create(ctx context.Context) (*etcdserverpb.ResponseHeader, []byte, error) {
	value := Chain{}.extended(0).Encode()
	resp, err := s.commit(s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.key), "=", 0)).
		Then(clientv3.OpPut(s.key, string(value))))
	if err != nil || !resp.Succeeded {
		return nil, nil, err
	}
	return resp.Header, value, nil
}

// swap writes the key if its mod revision is still revision, and else returns
// the key as it is now, nil when it is gone.
func (s *Sentinel) swap(ctx context.Context, revision int64, value []byte) (bool, *mvccpb.KeyValue, error) {
	resp, err := s.commit(s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.key), "=", revision)).
		Then(clientv3.OpPut(s.key, string(value))).
		Else(clientv3.OpGet(s.key)))
	if err != nil {
		return false, nil, err
	}
	if resp.Succeeded {
		return true, nil, nil
	}
	var kv *mvccpb.KeyValue
	if len(resp.Responses) == 1 {
		kv = first(resp.Responses[0].GetResponseRange().GetKvs())
	}
	if kv != nil && kv.ModRevision == revision {
		// Trying again would go on for ever.
		return false, nil, fmt.Errorf("freshness: sentinel %q: the backend refused to replace mod revision %d although that is the present one", s.key, revision)
	}
	return false, kv, nil
}

// commit sends a transaction that writes, if writing is worth a try.
func (s *Sentinel) commit(txn clientv3.Txn) (*clientv3.TxnResponse, error) {
	if err := s.writes.refused(); err != nil {
		return nil, s.readOnly(err)
	}
	resp, err := txn.Commit()
	switch s.writes.note(err); {
	case isRefusal(err):
		return nil, s.readOnly(err)
	case err != nil:
		return nil, fmt.Errorf("freshness: sentinel %q: %w", s.key, err)
	}
	return resp, nil
}

// foreign is the error for a value that must not be overwritten.
func (s *Sentinel) foreign(err error) error {
	fix := "choose another sentinel key, or delete this one if nothing else uses it"
	if errors.Is(err, ErrChainVersion) {
		fix = "let the newer version append"
	}
	return fmt.Errorf("freshness: sentinel %q holds %w; it is left alone: %s", s.key, err, fix)
}

// readOnly is the error for a write that the backend refused.
func (s *Sentinel) readOnly(err error) error {
	return fmt.Errorf("freshness: sentinel %q: %w: %w", s.key, ErrReadOnly, err)
}
