package upstreamsuite

import (
	"context"
	"testing"

	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

// plain makes a case of a check that takes nothing but the store.
func plain(name string, check func(ctx context.Context, t *testing.T, s Setup)) testCase {
	return testCase{name: name, run: check}
}

func writeCases() []testCase {
	return []testCase{
		plain("Create", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestCreate(ctx, t, s.Store, s.checkStored)
		}),
		plain("CreateWithTTL", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestCreateWithTTL(ctx, t, s.Store)
		}),
		plain("CreateWithKeyExist", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestCreateWithKeyExist(ctx, t, s.Store)
		}),
		plain("GuaranteedUpdateWithTTL", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestGuaranteedUpdateWithTTL(ctx, t, s.Store)
		}),
		plain("GuaranteedUpdateWithConflict", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestGuaranteedUpdateWithConflict(ctx, t, s.Store)
		}),
		plain("GuaranteedUpdateWithSuggestionAndConflict", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict(ctx, t, s.Store)
		}),
		plain("KeySchema", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestKeySchema(ctx, t, s.Store)
		}),
	}
}

// checkStored is RunTestCreate's look behind the store. Upstream's cached tests leave it empty.
func (s Setup) checkStored(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	response, err := s.Etcd.direct.Get(ctx, PathPrefix+key)
	if err != nil {
		t.Fatal(err)
	}
	if len(response.Kvs) != 1 || len(response.Kvs[0].Value) == 0 {
		t.Errorf("etcd holds %d values for %s%s, want one that is not empty", len(response.Kvs), PathPrefix, key)
	}
}
