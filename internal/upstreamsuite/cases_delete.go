package upstreamsuite

import (
	"context"
	"testing"

	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

func deleteCases() []testCase {
	return []testCase{
		plain("UnconditionalDelete", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestUnconditionalDelete(ctx, t, s.Store)
		}),
		plain("ConditionalDelete", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestConditionalDelete(ctx, t, s.Store)
		}),
		plain("DeleteWithSuggestion", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestDeleteWithSuggestion(ctx, t, s.Store)
		}),
		plain("DeleteWithSuggestionAndConflict", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestDeleteWithSuggestionAndConflict(ctx, t, s.Store)
		}),
		plain("DeleteWithSuggestionOfDeletedObject", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestDeleteWithSuggestionOfDeletedObject(ctx, t, s.Store)
		}),
		plain("ValidateDeletionWithSuggestion", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestValidateDeletionWithSuggestion(ctx, t, s.Store)
		}),
		plain("ValidateDeletionWithOnlySuggestionValid", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestValidateDeletionWithOnlySuggestionValid(ctx, t, s.Store)
		}),
		plain("DeleteWithConflict", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestDeleteWithConflict(ctx, t, s.Store)
		}),
		plain("PreconditionalDeleteWithSuggestion", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestPreconditionalDeleteWithSuggestion(ctx, t, s.Store)
		}),
		plain("PreconditionalDeleteWithOnlySuggestionPass", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass(ctx, t, s.Store)
		}),
	}
}

// unreadableCases delete objects that cannot be read any more, which the caller has to ask for expressly. Those that break
// decryption or decoding share the switch with their set-up, so each call makes new ones.
func unreadableCases() []testCase {
	conflict, transform := &switchableTransformer{Transformer: plainTransformer()}, &switchableTransformer{Transformer: plainTransformer()}
	decode := &switchableCodec{Codec: jsonCodec()}
	return []testCase{
		{
			name:    "ConflictAndMissingExpectedError",
			options: []func(*SetupOptions){func(o *SetupOptions) { o.Transformer = conflict }},
			run: func(ctx context.Context, t *testing.T, s Setup) {
				storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(ctx, t, s.Store, conflict.failing.Store)
			},
		},
		{
			name:    "ExpectedTransformError",
			options: []func(*SetupOptions){func(o *SetupOptions) { o.Transformer = transform }},
			run: func(ctx context.Context, t *testing.T, s Setup) {
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, s.Store, transform.failing.Store)
			},
		},
		{
			name:    "ExpectedDecodeError",
			options: []func(*SetupOptions){func(o *SetupOptions) { o.Codec = decode }},
			run: func(ctx context.Context, t *testing.T, s Setup) {
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(ctx, t, s.Store, decode.failing.Store)
			},
		},
		plain("SuggestionAndMissingExpectedError", func(ctx context.Context, t *testing.T, s Setup) {
			storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(ctx, t, s.Store)
		}),
	}
}
