package decorator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"

	ways "github.com/rvfloor/rvfloor/decorator/strategy"
	"github.com/rvfloor/rvfloor/freshness"
	"github.com/rvfloor/rvfloor/progress"
)

// What a read can fail with, for errors.Is. Each comes with an API status and a
// Retry-After of one second, or longer as ErrNoFloor says.
var (
	// ErrNoFloor: the backend's revision could not be read. 504; 429 for a Watch. When it
	// could not for three seconds reads fail at once, with a Retry-After that doubles with
	// each failed try of the backend up to ten seconds, until one, made each second, is
	// answered: see freshness.OutageError.
	ErrNoFloor = errors.New("no verified revision could be read from the backend")
	// ErrNotFresh: the cache did not reach the revision in time. 504; 429 for a
	// Watch; 422 for one with initial events where the strategy is direct.
	ErrNotFresh = errors.New("the watch cache did not become fresh in time")
	// ErrNotReady: the cache is still being filled. 429, as upstream.
	ErrNotReady = errors.New("the watch cache is not ready")
	// ErrBusy: so many direct lists are under way that this one did not get its turn within
	// Config.MaxWait. 429.
	ErrBusy = errors.New("too many direct lists of this resource")
	// ErrRefused: the backend was seen to be one whose reads cannot be verified. 503; 429
	// for a Watch.
	ErrRefused = ways.ErrRefused
	// ErrClosed: the Store or its Backend was closed. 503.
	ErrClosed = errors.New("the storage is closed")
)

// RewoundError is the backend's history having gone back, as after a restore. 503
// with Retry-After; 429 for a Watch.
type RewoundError = freshness.RewoundError

const retryAfterSeconds = 1

// failure is an error with an API status. kind is one of the above, cause what
// led to it.
type failure struct {
	*apierrors.StatusError
	kind, cause error
}

func (f *failure) Unwrap() []error {
	chain := []error{f.StatusError, f.kind}
	if f.cause != nil {
		chain = append(chain, f.cause)
	}
	return chain
}

// newFailure gives kind its API status. The text of a timeout must not contain
// upstream's "Too large resource version": client-go's watch-list would loop on
// it without backoff.
func newFailure(kind, cause error, watch bool) *failure {
	message := "rvfloor: " + kind.Error()
	if cause != nil {
		message += ": " + cause.Error()
	}
	var status *apierrors.StatusError
	switch {
	case errors.Is(kind, ErrNotReady), errors.Is(kind, ErrBusy):
		status = apierrors.NewTooManyRequests(message, retryAfterSeconds)
	case errors.Is(kind, ErrClosed):
		status = unavailable(message)
	case watch:
		status = apierrors.NewTooManyRequests(message, retryAfterSeconds)
	case errors.Is(kind, ErrNoFloor), errors.Is(kind, ErrNotFresh):
		status = apierrors.NewTimeoutError(message, retryAfterSeconds)
	default:
		status = unavailable(message)
	}
	return &failure{StatusError: status, kind: kind, cause: cause}
}

func unavailable(message string) *apierrors.StatusError {
	status := apierrors.NewServiceUnavailable(message)
	status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
	return status
}

// tooLarge is upstream's error for a revision that does not exist yet.
func tooLarge(asked, floor uint64) error {
	return storage.NewTooLargeResourceVersionError(asked, floor, retryAfterSeconds)
}

// Causes of the deadlines of a gated read.
var (
	errMaxWait   = errors.New("the longest wait for a fresh cache is over")
	errReadyWait = errors.New("the longest wait for a cache to be filled is over")
)

// floorFailure explains why no floor was had. ctx is the caller's own.
func floorFailure(ctx context.Context, err error, watch bool) error {
	if rewound, ok := errors.AsType[*RewoundError](err); ok {
		return newFailure(rewound, nil, watch)
	}
	if errors.Is(err, freshness.ErrClosed) {
		return newFailure(ErrClosed, nil, watch)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	failed := newFailure(ErrNoFloor, err, watch)
	if out, ok := errors.AsType[*freshness.OutageError](err); ok {
		failed.ErrStatus.Details.RetryAfterSeconds = int32(out.RetryAfter / time.Second)
	}
	return failed
}

// directOnly is that no cache is to answer. A watch with initial events is refused as by an
// API server that does not know these: client-go's reflector would try again for ever after
// a 429, and after this it lists and watches from there.
func (r *read) directOnly() error {
	why := cmp.Or(r.store.wiring.fails(), r.store.differs(), errDirect)
	if !r.route.initial {
		return newFailure(ErrNotFresh, why, r.verb == verbWatch)
	}
	status := apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", field.ErrorList{
		field.Forbidden(field.NewPath("sendInitialEvents"), why.Error()+"; list, and watch from there"),
	})
	return &failure{StatusError: status, kind: ErrNotFresh, cause: why}
}

// waitFailure explains why the cache did not get to target. ctx is the caller's
// own.
func waitFailure(ctx context.Context, err error, target, applied uint64, watch bool) error {
	switch {
	case errors.Is(err, progress.ErrClosed):
		return newFailure(ErrClosed, nil, watch)
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.Is(err, errReadyWait):
		return newFailure(ErrNotReady, nil, watch)
	case errors.Is(err, ErrRefused):
		return newFailure(err, nil, watch)
	}
	return newFailure(ErrNotFresh, fmt.Errorf("it is at %d and %d was asked for: %w", applied, target, err), watch)
}

// directFailure explains why a direct list had no answer, unless that is the
// storage's own. ctx is the caller's own.
func directFailure(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrClosed):
		return newFailure(ErrClosed, nil, false)
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case ctx.Err() != nil, errors.Is(err, errDirectTimeout):
		return newFailure(ErrNotFresh, fmt.Errorf("the direct list was not answered in time: %w", err), false)
	}
	return err
}
