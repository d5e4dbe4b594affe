package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/awake"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// restoring is an etcd behind a port, which is replaced by what was saved of it.
type restoring struct {
	t       *testing.T
	proxy   *etcdlab.Proxy
	cluster *etcdlab.Cluster
	direct  storage.Interface // past all caches and the port
	sent    *freshness.Sentinel
}

func startRestoring(t *testing.T) *restoring {
	r := &restoring{t: t}
	r.run(etcdlab.Config{Dir: t.TempDir(), Token: "token"})
	proxy, err := etcdlab.NewProxy(r.cluster.Endpoints()[0])
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	r.proxy = proxy
	return r
}

func (r *restoring) run(cfg etcdlab.Config) {
	r.cluster = etcdlab.Run(r.t, cfg)
	r.direct = upstream.mustOpen(r.t, storageConfig(r.cluster.Endpoints()...))
	client := etcdlab.Connect(r.t, r.cluster, etcdlab.ClientConfig{})
	r.sent = freshness.NewSentinel(client, freshness.SentinelKey("/registry"))
}

func (r *restoring) save() string {
	file := filepath.Join(r.t.TempDir(), "snapshot")
	require.NoError(r.t, r.cluster.Save(r.t.Context(), file))
	return file
}

// replace ends the cluster and starts the one that was saved, which answers at the port when it is let to.
func (r *restoring) replace(file, token string) {
	r.proxy.Cut()
	require.NoError(r.t, r.cluster.Close())
	cfg := etcdlab.Config{Dir: r.t.TempDir(), Token: token}
	require.NoError(r.t, etcdlab.Restore(file, cfg, 0))
	r.run(cfg)
	require.NoError(r.t, r.proxy.Retarget(r.cluster.Endpoints()[0]))
}

// set writes a pod, past the caches, and answers its revision.
func (r *restoring) set(name, value string) string {
	return setThrough(r.t, r.direct, name, func(string) string { return value })
}

func (r *restoring) revision() uint64 {
	revision, err := r.direct.GetCurrentResourceVersion(r.t.Context())
	require.NoError(r.t, err)
	return revision
}

// writeTo writes until the revision is there.
func (r *restoring) writeTo(revision uint64) {
	for n := 0; r.revision() < revision; n++ {
		r.set("filler", fmt.Sprint(n))
	}
}

// state is what is stored, or what a storage answers: values by name.
func stateOf(ctx context.Context, s storage.Interface, resourceVersion string) (map[string]string, error) {
	pods := &example.PodList{}
	opts := storage.ListOptions{ResourceVersion: resourceVersion, Recursive: true, Predicate: everything}
	if err := s.GetList(ctx, podPrefix+"/", opts, pods); err != nil {
		return nil, err
	}
	state := map[string]string{}
	for _, p := range pods.Items {
		state[p.Name] = p.Labels["value"]
	}
	return state, nil
}

// setThrough updates or makes a pod through a storage: change is told the value that the update was given to begin with.
func setThrough(t *testing.T, s storage.Interface, name string, change func(was string) string) string {
	t.Helper()
	out := &example.Pod{}
	require.NoError(t, trySet(t.Context(), s, name, out, change))
	return out.ResourceVersion
}

func trySet(ctx context.Context, s storage.Interface, name string, out *example.Pod, change func(was string) string) error {
	return s.GuaranteedUpdate(ctx, podPrefix+"/ns/"+name, out, true, nil, storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		was := o.(*example.Pod)
		value := change(was.Labels["value"])
		was.Namespace, was.Name, was.Labels = "ns", name, map[string]string{"value": value}
		return was, nil
	}), nil)
}

// TestRestore restores an etcd under an API server, with a stock one beside it, in each way that shows. From when the new
// one answers, no read of the newest data may show what was lost, and they have to be right again in 5 s of the time in which
// this process runs; no write may be made of what was lost; a watch has to tell its client to list again.
func TestRestore(t *testing.T) {
	for _, test := range []struct {
		name, token string
		sentinel    *string
		passed      bool // the new history has passed the old, and another API server has appended to the chain
		noKey       bool // the snapshot is from before the sentinel
		want        string
	}{
		{name: "revision", want: freshness.EvidenceRevision},
		{name: "another token", token: "other", passed: true, sentinel: new(""), want: freshness.EvidenceCluster},
		{name: "the chain", passed: true, want: freshness.EvidenceWitness},
		{name: "no sentinel", passed: true, noKey: true, want: freshness.EvidenceMissing},
	} {
		t.Run(test.name, func(t *testing.T) {
			etcd := startRestoring(t)
			etcd.set("a", "kept")
			if !test.noKey {
				require.NoError(t, etcd.sent.Append(t.Context()))
			}
			file := etcd.save()
			collides := etcd.set("a", "lost")
			etcd.set("phantom", "lost")
			if !test.noKey {
				require.NoError(t, etcd.sent.Append(t.Context()))
			}

			endpoint := "http://" + etcd.proxy.Addr()
			registry := prometheus.NewRegistry()
			cfg := Config{SentinelKey: test.sentinel, Registerer: registry}
			if test.sentinel != nil {
				cfg.Strategy = decorator.StrategyRequest // without a sentinel auto has no cache answer
			}
			b := newBackends(t, cfg)
			ours, err := b.open(podSpec(storageConfig(endpoint), podPrefix))
			require.NoError(t, err)
			read(t, ours, podPrefix)
			stock := newRegistry(t, "pods", stock(storageConfig(endpoint))).Storage.Storage
			require.Eventually(t, func() bool { return stock.ReadinessCheck() == nil }, wait, tick)
			for _, s := range []storage.Interface{ours.store, stock} {
				state, err := stateOf(t.Context(), s, "")
				require.NoError(t, err)
				require.Equal(t, map[string]string{"a": "lost", "phantom": "lost"}, state)
			}
			opts := storage.ListOptions{ResourceVersion: collides, Recursive: true, Predicate: everything}
			watch, err := ours.store.Watch(t.Context(), podPrefix+"/", opts)
			require.NoError(t, err)
			came := make(chan error, 1)
			go func() { came <- goesOn(t.Context(), ours.store, watch, opts) }()
			lost := etcd.revision()

			etcd.replace(file, cmp.Or(test.token, "token"))
			require.Equal(t, collides, etcd.set("a", "new"), "the two histories have given a one revision")
			if test.passed {
				if !test.noKey {
					require.NoError(t, etcd.sent.Append(t.Context()))
				}
				etcd.writeTo(lost + 5)
			}
			truth, err := stateOf(t.Context(), etcd.direct, "")
			require.NoError(t, err)

			etcd.proxy.Heal()
			clock := awake.Start()
			defer clock.Stop()
			// The write comes first, before any read has found anything out.
			out := &example.Pod{}
			for {
				var bases []string
				err := trySet(t.Context(), ours.store, "a", out, func(was string) string {
					bases = append(bases, was)
					return was + ", written"
				})
				assert.NotContains(t, bases, "lost", "a write was begun with what was lost")
				if err == nil {
					break
				}
				require.Less(t, clock.Now(), 5*time.Second, "no write succeeds: %v", err)
			}
			truth["a"] = "new, written"
			for right := 0; right < 20; {
				for _, rv := range []string{"", "0"} {
					state, err := stateOf(t.Context(), ours.store, rv)
					if err == nil {
						require.Equal(t, truth, state, "a phantom, at %q after %v", rv, clock.Now())
						right++
						continue
					}
					require.Less(t, clock.Now(), 5*time.Second, "reads fail: %v", err)
				}
			}
			t.Logf("right again after %v", clock.Now())

			assert.True(t, apierrors.IsResourceExpired(<-came), "what a watch gets that goes on")

			assert.Equal(t, []string{test.want}, evidences(t, registry), "what showed it")
			if test.passed {
				return // stock may have noticed by a watch that failed: its answers are not compared
			}
			state, err := stateOf(t.Context(), stock, "")
			if assert.NoError(t, err) {
				assert.Contains(t, state, "phantom", "stock has learned to notice: say so in the documentation")
			}
		})
	}
}

// goesOn reads a watch until it ends, and asks again, as client-go does, from the last
// revision that it has. It returns the error that this brings.
func goesOn(ctx context.Context, s storage.Interface, w watch.Interface, opts storage.ListOptions) error {
	for event := range w.ResultChan() {
		if accessor, err := meta.Accessor(event.Object); err == nil {
			opts.ResourceVersion = accessor.GetResourceVersion()
		}
	}
	w.Stop()
	again, err := s.Watch(ctx, podPrefix+"/", opts)
	if err != nil {
		return err
	}
	defer again.Stop()
	event := <-again.ResultChan()
	return apierrors.FromObject(event.Object)
}

// evidences are what rewinds were counted for.
func evidences(t *testing.T, registry prometheus.Gatherer) (words []string) {
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "rvfloor_rewinds_total" {
			continue
		}
		for _, m := range f.Metric {
			for _, label := range m.Label {
				if label.GetName() == "evidence" && m.Counter.GetValue() > 0 {
					words = append(words, label.GetValue())
				}
			}
		}
	}
	return words
}
