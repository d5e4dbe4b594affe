package probe

import (
	"context"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/rvfloor/rvfloor/decorator/strategy"
	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

// begun is a probe of a shim like etcd, not run yet, and the shim.
func begun(t *testing.T, options ...grpc.DialOption) (*probe, *fdbshim.Server) {
	t.Helper()
	store := fdbshim.NewStore(fdbshim.Config{LikeEtcd: true})
	t.Cleanup(store.Close)
	server, err := fdbshim.Serve(store, fdbshim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, DialOptions: options})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return &probe{ground: &ground{clients: []*clientv3.Client{client, client}, dir: "/registry/rvfloor/probe/x/", keys: map[string]int64{}}}, server
}

// TestPause: replies that stay away as long as one watch is asked, and then come, are no
// fault; and where none come on another one either, that is.
func TestPause(t *testing.T) {
	for _, over := range []bool{true, false} {
		t.Run(fmt.Sprintf("over=%v", over), func(t *testing.T) {
			t.Parallel()
			p, server := begun(t)
			if _, err := p.put(t.Context(), p.client(0), floorKey); err != nil {
				t.Fatal(err)
			}
			w, err := openWatch(t.Context(), p.client(0), p.dir, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			silent := func() {
				server.SetFaults(fdbshim.Faults{NoProgress: true})
				if over {
					time.AfterFunc(patience+patience/3, func() { server.SetFaults(fdbshim.Faults{}) })
				}
			}
			want := strategy.VerdictYes
			if !over {
				want = strategy.VerdictNo
			}
			silent()
			if err := p.stands(t.Context(), w); err != nil {
				t.Error(err)
			}
			if got := p.reaches.finding(progressReaches, 1, "%d of %d"); got.Verdict != want {
				t.Errorf("%+v", got)
			}
			silent()
			if err := p.answers(t.Context()); err != nil {
				t.Error(err)
			}
			if got := p.answered.finding(progressAnswered, 1, "%d of %d"); got.Verdict != want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestCleanUpAfterADoubtfulWrite: a first write that may have happened is deleted too.
func TestCleanUpAfterADoubtfulWrite(t *testing.T) {
	lost := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if txn, ok := req.(*pb.TxnRequest); ok && err == nil && txn.Success[0].GetRequestPut() != nil {
			return context.DeadlineExceeded // the answer is lost
		}
		return err
	})
	p, _ := begun(t, lost)
	report, err := Observe(t.Context(), Config{Clients: p.clients})
	if err != nil || report.Err == nil {
		t.Fatalf("%+v, %v", report, err)
	}
	resp, err := p.client(0).Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil || len(resp.Kvs) != 0 {
		t.Errorf("it has left %v, %v", resp.Kvs, err)
	}
}
