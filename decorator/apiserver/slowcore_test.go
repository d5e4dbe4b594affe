package apiserver

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// Too little CPU fails no verified LIST that stock answers: a thousand over as many new TLS connections, to a server that has
// one core for itself, its etcd and its clients. Under Fail it is the wait for the floor that must not count the time in which
// nothing got a core.
func TestSlowCore(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand connections on one core take seconds")
	}
	const lists = 1000
	etcd := etcdlab.Run(t, etcdlab.Config{})
	storm := func(args ...string) (failed int) {
		s := serve(t, append(args, "--etcd-servers="+etcd.Endpoints()[0])...)
		defer s.stop()
		require.Eventually(t, func() bool {
			a, err := s.try(t.Context(), "GET", podsPath, "")
			return err == nil && a.code == http.StatusOK
		}, wait, tick)
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		var done sync.WaitGroup
		var answered atomic.Int64
		said := make(chan string, lists)
		for range lists {
			done.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), "GET", s.url+podsPath, nil)
				if err != nil {
					said <- err.Error()
					return
				}
				r.Header.Set("Test-User", "admin")
				transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
				res, err := transport.RoundTrip(r)
				if err != nil {
					said <- err.Error()
					return
				}
				defer res.Body.Close()
				body, _ := io.ReadAll(res.Body)
				if res.StatusCode != http.StatusOK {
					said <- string(body)
					return
				}
				answered.Add(1)
			})
		}
		done.Wait()
		if len(said) > 0 {
			t.Logf("%v: %d of %d failed, the first with %s", args, len(said), lists, <-said)
		}
		return lists - int(answered.Load())
	}
	stock := storm("--verified-reads=false")
	for _, policy := range []string{"Fail", "Quorum"} {
		if failed := storm("--verified-reads-on-unverified=" + policy); failed > stock {
			t.Errorf("%s: %d of %d LISTs failed, and of stock's %d", policy, failed, lists, stock)
		}
	}
}

// stuckWatches lets no event and no progress through, once it is set.
type stuckWatches struct{ atomic.Bool }

func (s *stuckWatches) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, cc, method, opts...)
	if err == nil && method == pb.Watch_Watch_FullMethodName {
		return stuckWatch{stream, s}, nil
	}
	return stream, err
}

type stuckWatch struct {
	grpc.ClientStream
	stuck *stuckWatches
}

func (w stuckWatch) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	if err == nil && w.stuck.Load() {
		<-w.Context().Done()
		return w.Context().Err()
	}
	return err
}

// A cache that is stuck does not take the reads of the newest data with it, unless the operator wants that.
func TestStuckCache(t *testing.T) {
	for policy, fails := range map[decorator.OnUnverified]bool{"": false, decorator.UnverifiedQuorum: false, decorator.UnverifiedFail: true} {
		t.Run(string(policy), func(t *testing.T) {
			etcd := etcdlab.Run(t, etcdlab.Config{})
			stuck := &stuckWatches{}
			b := newBackends(t, Config{OnUnverified: policy, Strategy: decorator.StrategyRequest, MaxWait: 300 * time.Millisecond})
			b.dialOptions = []grpc.DialOption{grpc.WithChainStreamInterceptor(stuck.stream)}
			r, err := b.open(podSpec(storageConfig(etcd.Endpoints()...), podPrefix))
			require.NoError(t, err)
			read(t, r, podPrefix)
			stuck.Store(true)
			require.NoError(t, r.store.Create(t.Context(), podPrefix+"/ns/a", pod("ns", "a"), &example.Pod{}, 0))
			for _, version := range []string{"", "0"} {
				pods := &example.PodList{}
				opts := storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: everything}
				err := r.store.GetList(t.Context(), podPrefix+"/", opts, pods)
				if fails {
					assert.ErrorIs(t, err, decorator.ErrNotFresh)
				} else if assert.NoError(t, err) {
					assert.Len(t, pods.Items, 1, "the object that the cache has not heard of")
				}
				_, err = r.store.Watch(t.Context(), podPrefix+"/", opts)
				assert.True(t, apierrors.IsTooManyRequests(err), "a watch is the cache's: %v", err)
			}
			err = r.store.Get(t.Context(), podPrefix+"/ns/a", storage.GetOptions{ResourceVersion: "0"}, &example.Pod{})
			assert.Equal(t, fails, err != nil, "%v", err)
		})
	}
}
