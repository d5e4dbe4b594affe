package freshness

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

const testKey = "/registry/rvfloor/sentinel"

// startEtcd starts a cluster that leaves no goroutine behind.
func startEtcd(t *testing.T, cfg etcdlab.Config) *etcdlab.Cluster {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	return etcdlab.Run(t, cfg)
}

// connect makes a client that is held to what kine understands, whatever the
// test is about.
func connect(t *testing.T, cluster *etcdlab.Cluster, cfg etcdlab.ClientConfig) *clientv3.Client {
	t.Helper()
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(kineOnly(t)))
	return etcdlab.Connect(t, cluster, cfg)
}

// kineOnly fails the test on a request that kine would refuse or misunderstand.
func kineOnly(t *testing.T) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		switch req := req.(type) {
		case *etcdserverpb.RangeRequest:
			if !plainGet(req) {
				t.Errorf("a read with options: %v", req)
			}
		case *etcdserverpb.TxnRequest:
			if !createsIfAbsent(req) && !replacesElseReads(req) {
				t.Errorf("a transaction that kine does not know: %v", req)
			}
		case *etcdserverpb.PutRequest, *etcdserverpb.DeleteRangeRequest:
			t.Errorf("a write without a comparison: %v", req)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
}

// plainGet: linearizable, of one key, at the newest revision.
func plainGet(r *etcdserverpb.RangeRequest) bool {
	return !r.Serializable && len(r.RangeEnd) == 0 && r.Revision == 0 && r.Limit == 0 && !r.KeysOnly && !r.CountOnly &&
		r.MinModRevision == 0 && r.MaxModRevision == 0 && r.MinCreateRevision == 0 && r.MaxCreateRevision == 0 &&
		r.SortTarget == etcdserverpb.RangeRequest_KEY && r.SortOrder == etcdserverpb.RangeRequest_NONE
}

func plainPut(ops []*etcdserverpb.RequestOp) bool {
	if len(ops) != 1 {
		return false
	}
	put := ops[0].GetRequestPut()
	return put != nil && put.Lease == 0 && !put.PrevKv && !put.IgnoreLease && !put.IgnoreValue
}

// compares returns the mod revision that the transaction requires, or -1 if
// that is not all that it requires.
func compares(r *etcdserverpb.TxnRequest) int64 {
	if len(r.Compare) != 1 || r.Compare[0].Target != etcdserverpb.Compare_MOD || r.Compare[0].Result != etcdserverpb.Compare_EQUAL {
		return -1
	}
	return r.Compare[0].GetModRevision()
}

func createsIfAbsent(r *etcdserverpb.TxnRequest) bool {
	return compares(r) == 0 && plainPut(r.Success) && len(r.Failure) == 0
}

func replacesElseReads(r *etcdserverpb.TxnRequest) bool {
	return compares(r) > 0 && plainPut(r.Success) && len(r.Failure) == 1 && r.Failure[0].GetRequestRange() != nil && plainGet(r.Failure[0].GetRequestRange())
}

// soon is a guard against a hang, not an expectation.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// put writes past the sentinel, through a client of its own.
func put(t *testing.T, client *clientv3.Client, key, value string) uint64 {
	t.Helper()
	resp, err := client.Put(soon(t), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(resp.Header.Revision)
}

// valueOf returns a key as it is, and fails where it is missing.
func valueOf(t *testing.T, client *clientv3.Client, key string) (string, uint64) {
	t.Helper()
	resp, err := client.Get(soon(t), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		t.Fatalf("%s is missing", key)
	}
	return string(resp.Kvs[0].Value), uint64(resp.Kvs[0].ModRevision)
}

func mustRead(t *testing.T, s *Sentinel) Reading {
	t.Helper()
	reading, err := s.Read(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return reading
}

func mustParse(t *testing.T, value []byte) Chain {
	t.Helper()
	chain, err := ParseChain(value)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// interfering lets a test do something before a transaction is sent.
type interfering struct {
	clientv3.KV
	before func()
}

func (k *interfering) Txn(ctx context.Context) clientv3.Txn {
	return &interferingTxn{k.KV.Txn(ctx), k.before}
}

type interferingTxn struct {
	clientv3.Txn
	before func()
}

func (t *interferingTxn) If(cs ...clientv3.Cmp) clientv3.Txn { t.Txn = t.Txn.If(cs...); return t }

func (t *interferingTxn) Then(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(ops...); return t }

func (t *interferingTxn) Else(ops ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(ops...); return t }

func (t *interferingTxn) Commit() (*clientv3.TxnResponse, error) {
	t.before()
	return t.Txn.Commit()
}

// forgetting misses every key, as if each had just been deleted.
type forgetting struct{ clientv3.KV }

func (k *forgetting) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	resp, err := k.KV.Get(ctx, key, opts...)
	if resp != nil {
		resp.Kvs, resp.Count = nil, 0
	}
	return resp, err
}

// stubborn is a backend that never replaces anything: its transactions compare
// something else than they were told.
type stubborn struct{ clientv3.KV }

func (k *stubborn) Txn(ctx context.Context) clientv3.Txn {
	return &stubbornTxn{k.KV.Txn(ctx)}
}

type stubbornTxn struct{ clientv3.Txn }

func (t *stubbornTxn) If(...clientv3.Cmp) clientv3.Txn {
	return t.Txn.If(clientv3.Compare(clientv3.ModRevision("/nothing"), ">", 0))
}
