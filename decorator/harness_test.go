package decorator

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/internal/memstorage"
)

// cacherTimers is longer than any timer of upstream's Cacher that outlives it: time
// stands still once a bubble's test has returned, and would leave them behind.
const cacherTimers = 4 * time.Second

var (
	scheme = runtime.NewScheme()
	codec  = serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
	pods   = schema.GroupResource{Resource: "pods"}
)

func init() {
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	memstorage.SupportProgress()
	// Breaches and upstream's own complaints are provoked here by the dozen.
	klog.SetLogger(klog.Logger{})
}

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

// setup says what a rig is to be like. Its zero value is a ready cache behind a
// Feed over a storage with a progress.Watcher.
type setup struct {
	cfg      Config                      // without Source and Registerer
	feedless bool                        // somebody else built the cache
	untapped bool                        // the storage has no progress.Watcher
	filling  bool                        // the first fill of the cache is held back
	source   func(*rig) freshness.Source // nil: that of the writer
	proves   bool                        // the resource has a Prover
	keyFunc  func(runtime.Object) (string, error)
	apart    bool // no items are shared with the cache's
	alike    bool // the storage answers equal lists alike, whoever asks
	noRaw    bool // the Store has nothing but the cache
	// before runs when there is a backend and nothing else; nil: nothing.
	before func(*rig)
	// inner and raw wrap what the Store and the cache see; nil: nothing.
	inner, raw func(storage.Interface) storage.Interface
}

// rig is one API server: a Store over a real Cacher over a storage in memory.
type rig struct {
	t       *testing.T
	memory  *memstorage.Backend
	cached  *memstorage.Storage // what the cache watches: its switches act on that
	writer  *memstorage.Storage // the same data past the cache, and the Source
	backend *Backend
	feed    *Feed // nil: feedless
	cacher  *cacher.Cacher
	inner   storage.Interface // what the Store wraps
	store   *Store

	proofs atomic.Int64 // ranges of the Prover
	// proving is what comes of a range; nil: what it read.
	proving func(ctx context.Context, p Proof) (Proof, error)
}

// prove is the Prover: a range past the cache.
func (r *rig) prove(ctx context.Context, since uint64) (Proof, error) {
	r.proofs.Add(1)
	pods, err := list(ctx, r.writer, everything(""))
	if err != nil {
		return Proof{}, err
	}
	p := Proof{Count: int64(len(pods.Items))}
	p.Revision, _ = r.writer.Versioner().ParseResourceVersion(pods.ResourceVersion)
	for i := range pods.Items {
		written, _ := r.writer.Versioner().ObjectResourceVersion(&pods.Items[i])
		p.Newer = p.Newer || written > since
	}
	if r.proving != nil {
		return r.proving(ctx, p)
	}
	return p, nil
}

// bubble runs f in virtual time with a rig, and takes that down. f gets a T of its
// own: the context of the outer one does not belong to the bubble.
func bubble(t *testing.T, s setup, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t, s)) })
}

func newRig(t *testing.T, s setup) *rig {
	t.Helper()
	r := &rig{t: t, memory: memstorage.NewBackend()}
	r.cached, r.writer = r.storage(!s.untapped && !s.feedless), r.storage(false)
	if s.before != nil {
		s.before(r)
	}
	cfg := s.cfg
	cfg.Source = freshness.SourceFunc(r.writer.GetCurrentResourceVersion)
	if s.source != nil {
		cfg.Source = s.source(r)
	}
	cfg.Registerer = prometheus.NewRegistry()
	if cfg.Pulse == 0 {
		cfg.Pulse = -1 // tests count floor reads
	}
	var err error
	if r.backend, err = NewBackend(cfg); err != nil {
		t.Fatal(err)
	}
	var raw storage.Interface = r.cached
	if s.raw != nil {
		raw = s.raw(raw)
	}
	res := Resource{GroupResource: pods, Prefix: "/pods/", NewList: newPodList, Raw: raw, SharesItems: !s.apart, SharesLists: s.alike, KeyFunc: s.keyFunc}
	if s.noRaw {
		res.Raw = nil
	}
	if s.proves {
		res.Prove = r.prove
	}
	cacheStorage := raw
	if !s.feedless {
		if r.feed, err = r.backend.Feed(raw, res); err != nil {
			t.Fatal(err)
		}
		res.Feed, cacheStorage = r.feed, r.feed
	}
	if s.filling {
		r.cached.Hold()
	}
	r.cacher, r.inner = newCache(t, "/pods/", cacheStorage, raw)
	if s.inner != nil {
		r.inner = s.inner(r.inner)
	}
	if r.store, err = r.backend.Wrap(r.inner, res); err != nil {
		t.Fatal(err)
	}
	// Cleanups run last in, first out: the decorator, the cache, the storage.
	t.Cleanup(func() {
		r.cached.Release()
		if err := r.backend.Close(); err != nil {
			t.Error(err)
		}
	})
	if !s.filling {
		r.settle()
	}
	return r
}

func cacherConfig(prefix string, over storage.Interface) cacher.Config {
	return cacher.Config{
		Storage:             over,
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       pods,
		EventsHistoryWindow: cacher.DefaultEventFreshDuration,
		ResourcePrefix:      prefix,
		KeyFunc:             func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, obj) },
		GetAttrsFunc:        podAttrs,
		NewFunc:             newPod,
		NewListFunc:         newPodList,
		Codec:               codec,
	}
}

// newCache is upstream's cache of a prefix as an API server builds it: it watches
// over, and what it does not know is answered from raw.
func newCache(t *testing.T, prefix string, over, raw storage.Interface) (*cacher.Cacher, *cacher.CacheDelegator) {
	t.Helper()
	c, err := cacher.NewCacherFromConfig(cacherConfig(prefix, over))
	if err != nil {
		t.Fatal(err)
	}
	d := cacher.NewCacheDelegator(c, raw)
	t.Cleanup(func() {
		d.Stop()
		c.Stop()
		time.Sleep(cacherTimers)
	})
	return c, d
}

// stock is upstream's cache over a storage of its own with the same data.
func (r *rig) stock() (*memstorage.Storage, storage.Interface) {
	r.t.Helper()
	raw := r.storage(false)
	c, d := newCache(r.t, "/pods/", raw, raw)
	if err := c.Wait(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(time.Second)
	return raw, d
}

func (r *rig) storage(tapped bool) *memstorage.Storage {
	r.t.Helper()
	return memory(r.t, r.memory, memstorage.Config{Prefix: "/pods/", Tapped: tapped})
}

// memory is a storage of pods, under whatever prefix.
func memory(t *testing.T, backend *memstorage.Backend, cfg memstorage.Config) *memstorage.Storage {
	t.Helper()
	cfg.New = newPod
	s, err := memstorage.New(backend, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Close)
	return s
}

// settle waits until the cache is ready and nothing is on its way.
func (r *rig) settle() {
	r.t.Helper()
	if err := r.cacher.Wait(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(time.Second) // past what the Feed takes to learn that nobody taps
	synctest.Wait()
}

func podAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod := obj.(*example.Pod)
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
	}, nil
}

func pod(namespace, name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func podKey(p *example.Pod) string { return "/pods/" + p.Namespace + "/" + p.Name }

// put writes pods of namespace ns at one revision, past the cache, and returns it.
func (r *rig) put(names ...string) uint64 {
	r.t.Helper()
	var changes []memstorage.Change
	for _, name := range names {
		p := pod("ns", name)
		changes = append(changes, memstorage.Put(podKey(p), p))
	}
	return r.txn(changes...)
}

func (r *rig) txn(changes ...memstorage.Change) uint64 {
	r.t.Helper()
	revision, err := r.memory.Txn(changes...)
	if err != nil {
		r.t.Fatal(err)
	}
	return revision
}

// applied is what the cache is known to have.
func (r *rig) applied() uint64 { return r.store.stream.Revision() }

// floorReads is how often the Source was read.
func (r *rig) floorReads() int64 { return r.writer.Calls().Revision }

// settled returns when nothing moves any more.
func settled() { synctest.Wait() }

// everything lists or watches all.
func everything(resourceVersion string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: resourceVersion, Predicate: storage.Everything, Recursive: true}
}

// selecting is a predicate with selectors; empty ones select everything.
func selecting(label, field string) storage.SelectionPredicate {
	p := storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), GetAttrs: podAttrs}
	if label != "" {
		p.Label = labels.SelectorFromSet(must(labels.ConvertSelectorToLabelsMap(label)))
	}
	if field != "" {
		p.Field = must(fields.ParseSelector(field))
	}
	return p
}

func must[T any](value T, err error) T {
	utilruntime.Must(err)
	return value
}

// list lists all pods through s.
func list(ctx context.Context, s storage.Interface, opts storage.ListOptions) (*example.PodList, error) {
	return listUnder(ctx, s, "/pods/", opts)
}

func listUnder(ctx context.Context, s storage.Interface, key string, opts storage.ListOptions) (*example.PodList, error) {
	pods := &example.PodList{}
	err := s.GetList(ctx, key, opts, pods)
	return pods, err
}

// source is a Source that stands still.
func source(revision uint64) freshness.Source {
	return freshness.SourceFunc(func(context.Context) (uint64, error) { return revision, nil })
}

func names(pods *example.PodList) []string {
	all := []string{}
	for _, p := range pods.Items {
		all = append(all, p.Name)
	}
	return all
}

// count is the value of a counter or a gauge.
func count(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	if out.Counter != nil {
		return out.Counter.GetValue()
	}
	return out.Gauge.GetValue()
}

// reads is how many reads of a kind were counted.
func (r *rig) reads(v verb, route routeKind, result outcome) float64 {
	r.t.Helper()
	return count(r.t, r.backend.metrics.Reads.WithLabelValues("", "pods", v.String(), route.String(), result.String()))
}

func (r *rig) breaches() float64 { return count(r.t, r.store.observe.breaches) }
