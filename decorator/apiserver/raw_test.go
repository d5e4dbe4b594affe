package apiserver

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// outcome is what a caller sees of data that cannot be read.
type outcome struct {
	Get, List, Delete, DeleteAnyway string
	Corrupt                         bool // an unsafe deletion would go on
	Left                            int64
}

// Both treat data that cannot be decoded, or that was encrypted by a transformer that is not configured any more, alike,
// with and without the gate.
func TestCorruptObjectsMatchUpstream(t *testing.T) {
	for name, data := range map[string]string{"undecodable": "junk", "encrypted": "k8s:enc:aescbc:v1:key:junk"} {
		for _, gate := range []bool{false, true} {
			t.Run(name+map[bool]string{true: "/gate", false: "/no gate"}[gate], func(t *testing.T) {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, gate)
				seen := map[string]outcome{}
				for _, opener := range []rawOpener{upstream, ours()} {
					seen[opener.name] = corrupt(t, opener, data)
				}
				assert.Equal(t, seen["upstream"], seen["ours"])
				assert.Equal(t, gate, seen["ours"].Corrupt)
				assert.Equal(t, !gate, seen["ours"].Left == 1, "only the gate allows to delete it")
			})
		}
	}
}

func corrupt(t *testing.T, opener rawOpener, data string) outcome {
	t.Helper()
	etcd := startEtcd(t)
	cfg := storageConfig(etcd.Endpoints()...)
	s := opener.mustOpen(t, cfg)
	key := podPrefix + "/ns/a"
	_, err := etcd.Put(t.Context(), "/registry"+key, data)
	require.NoError(t, err)

	text := func(err error) string {
		require.Error(t, err)
		return err.Error()
	}
	var o outcome
	err = s.Get(t.Context(), key, storage.GetOptions{}, &example.Pod{})
	o.Get, o.Corrupt = text(err), storage.IsCorruptObject(err)
	o.List = text(s.GetList(t.Context(), podPrefix+"/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, newPodList()))
	remove := func(opts storage.DeleteOptions) error {
		return s.Delete(t.Context(), key, newPod(), nil, storage.ValidateAllObjectFunc, nil, opts)
	}
	o.Delete = text(remove(storage.DeleteOptions{}))
	if err := remove(storage.DeleteOptions{ExpectTransformOrDecodeError: true}); err != nil {
		o.DeleteAnyway = err.Error()
	}
	left, err := etcd.KV.Get(t.Context(), "/registry"+key)
	require.NoError(t, err)
	o.Left = left.Count
	return o
}

// Both read what the other has written, under the same keys, and share leases by the same rule.
func TestStoredDataMatchesUpstream(t *testing.T) {
	etcd := startEtcd(t)
	cfg := storageConfig(etcd.Endpoints()...)
	cfg.LeaseManagerConfig.MaxObjectCount = 2
	for _, opener := range []rawOpener{upstream, ours()} {
		s := opener.mustOpen(t, cfg)
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, s.Create(t.Context(), podPrefix+"/"+opener.name+"/"+name, pod(opener.name, name), nil, 3600))
		}
	}
	leases := map[string][]int64{}
	values := map[string]string{}
	for _, by := range []string{"upstream", "ours"} {
		for _, name := range []string{"a", "b", "c"} {
			got, err := etcd.KV.Get(t.Context(), "/registry/pods/"+by+"/"+name)
			require.NoError(t, err)
			require.Len(t, got.Kvs, 1, "%s/%s", by, name)
			leases[by] = append(leases[by], got.Kvs[0].Lease)
			values[by] += string(got.Kvs[0].Value)
		}
		l := leases[by]
		assert.True(t, l[0] == l[1] && l[1] != l[2] && l[2] != 0, "%s: leases of two objects each: %v", by, l)
	}
	assert.Len(t, values["ours"], len(values["upstream"])-3*(len("upstream")-len("ours")), "the same encoding")
	_, err := ours().mustOpen(t, cfg).Stats(t.Context())
	require.NoError(t, err)
}
