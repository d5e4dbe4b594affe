package fdbshim_test

import (
	"context"
	"strconv"
	"testing"

	"go.etcd.io/etcd/client/v3/kubernetes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/utils/clock"

	"github.com/rvfloor/rvfloor/internal/fdbshim"
)

// newRaw is upstream's storage of pods over the shim, with its compactor.
func newRaw(t *testing.T, cfg fdbshim.Config) (storage.Interface, *kubernetes.Client) {
	t.Helper()
	_, inner := serve(t, newStore(t, cfg), fdbshim.Options{})
	client := &kubernetes.Client{Client: inner}
	client.Kubernetes = client // what kubernetes.New does
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	codec, versioner := serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion), storage.APIObjectVersioner{}
	compactor := etcd3.NewCompactor(inner, 0, clock.RealClock{}, nil) // 0: it watches, and never compacts by itself
	t.Cleanup(compactor.Stop)
	raw, err := etcd3.New(client, compactor, codec, func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		"/registry", "/pods/", schema.GroupResource{Resource: "pods"}, identity.NewEncryptCheckTransformer(),
		etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(codec, versioner), versioner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	return raw, client
}

// TestUpstreamsStorage runs upstream's own checks of its storage, but those that
// count an etcd's revisions.
func TestUpstreamsStorage(t *testing.T) {
	checks := map[string]func(context.Context, *testing.T, storage.Interface){
		"Create": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestCreate(ctx, t, s, func(context.Context, *testing.T, string) {})
		},
		"CreateWithTTL":        storagetesting.RunTestCreateWithTTL,
		"CreateExisting":       storagetesting.RunTestCreateWithKeyExist,
		"Get":                  storagetesting.RunTestGet,
		"Delete":               storagetesting.RunTestUnconditionalDelete,
		"ConditionalDelete":    storagetesting.RunTestConditionalDelete,
		"DeleteWithConflict":   storagetesting.RunTestDeleteWithConflict,
		"UpdateWithTTL":        storagetesting.RunTestGuaranteedUpdateWithTTL,
		"UpdateWithConflict":   storagetesting.RunTestGuaranteedUpdateWithConflict,
		"UpdateWithSuggestion": storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict,
		"NamespaceScopedList":  storagetesting.RunTestNamespaceScopedList,
		"ListPaging":           storagetesting.RunTestListPaging,
		"RareObject": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, s, func(*testing.T, uint64, uint64) {})
		},
		"Watch":                storagetesting.RunTestWatch,
		"WatchFromNonZero":     storagetesting.RunTestWatchFromNonZero,
		"DeleteTriggersWatch":  storagetesting.RunTestDeleteTriggerWatch,
		"DelayedWatch":         storagetesting.RunTestDelayedWatchDelivery,
		"DeleteEvent":          storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV,
		"NamespaceScopedWatch": storagetesting.RunTestNamespaceScopedWatch,
		"WatchCancel":          storagetesting.RunTestWatchContextCancel,
	}
	both(t, func(t *testing.T, cfg fdbshim.Config) {
		for name, check := range checks {
			t.Run(name, func(t *testing.T) {
				raw, _ := newRaw(t, cfg)
				check(t.Context(), t, raw)
			})
		}
		t.Run("Compaction", func(t *testing.T) {
			raw, client := newRaw(t, cfg)
			storagetesting.RunTestListInconsistentContinuation(t.Context(), t, raw, func(ctx context.Context, t *testing.T, resourceVersion string) {
				revision, err := strconv.ParseInt(resourceVersion, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				_, _, _, err = etcd3.Compact(ctx, client.Client, 0, revision)
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	})
}
