package freshness

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rvfloor/rvfloor/internal/joinnext"
)

// errNoAnswer is told to Hooks.Read when the source panicked.
var errNoAnswer = errors.New("freshness: the source panicked")

// read is the shared read. It runs in one goroutine at a time. After a rewind, and
// while the source is out, it returns no error, since that would send its callers to
// another read: they look for the reason themselves.
func (f *Floors) read(ctx context.Context, call joinnext.Call) (Floor, error) {
	epoch := f.Epoch()
	if epoch.Rewound() != nil {
		return Floor{}, nil // became known while this batch waited
	}
	info := ReadInfo{Outcome: OutcomeError, Callers: call.Callers, Err: errNoAnswer}
	traced := func(ReadInfo) {}
	if callers := call.Traced(); callers != nil {
		ctx, traced = f.hooks.Trace(ctx, callers)
	}
	defer func() {
		info.Duration = time.Since(call.SentAt)
		f.hooks.Read(info)
		traced(info)
	}()

	ctx, cancel := f.bounded(ctx)
	defer cancel()
	// Both before the read is sent: the answer is held to what was known then.
	seen := epoch.seen.Load()
	doubts := f.doubts.Load()
	reading, err := f.source.Read(ctx)
	info.Revision = reading.Revision

	info.Outcome, info.Err = judge(ctx, seen, reading, err)
	if info.Err == nil {
		info.Outcome, info.Err = epoch.agrees(seen, reading, doubts != f.proved.Load())
	}
	if rewound, ok := errors.AsType[*RewoundError](info.Err); ok {
		f.answered()
		f.end(epoch, rewound)
		return Floor{}, nil
	}
	if info.Err != nil {
		if info.Outcome != OutcomeCanceled || !endOf(ctx, err) {
			f.doubts.Add(1)
		}
		if err == nil && reading.Revision != 0 || info.Outcome == OutcomeCanceled {
			return Floor{}, info.Err // it is no failure of the source
		}
		if f.failed(call.SentAt, info.Err) {
			return Floor{}, nil
		}
		return Floor{}, info.Err
	}
	f.answered()
	floor := Floor{Revision: reading.Revision, SentAt: call.SentAt}
	epoch.known.learn(reading)
	epoch.seen.Raise(floor.Revision)
	epoch.last.store(floor)
	f.proved.Store(doubts)
	return floor, nil
}

// judge says whether what the source answered is a floor. seen is the highest
// revision seen before the read was sent. Anything in doubt is none.
func judge(ctx context.Context, seen uint64, reading Reading, err error) (Outcome, error) {
	if rewound, ok := errors.AsType[*RewoundError](err); ok {
		return OutcomeRewound, rewound
	}
	switch cause := context.Cause(ctx); {
	case err != nil && errors.Is(cause, joinnext.ErrTimeout):
		return OutcomeError, cause // which says more than err
	case err != nil && cause != nil:
		return OutcomeCanceled, cause // its callers have gone, or Close was called
	case err != nil:
		return OutcomeError, err
	case reading.Revision == 0:
		return OutcomeBad, ErrZeroRevision
	case reading.Revision < seen:
		return OutcomeRewound, &RewoundError{Seen: seen, Read: reading.Revision, Evidence: EvidenceRevision}
	}
	return OutcomeOK, nil
}

// agrees says whether a floor is of the epoch's history.
func (e *Epoch) agrees(seen uint64, reading Reading, doubted bool) (Outcome, error) {
	evidence, err := e.known.contradiction(reading, doubted)
	if evidence != "" {
		return OutcomeRewound, &RewoundError{Seen: seen, Read: reading.Revision, Evidence: evidence}
	}
	if err != nil {
		return OutcomeError, err
	}
	return OutcomeOK, nil
}

// endOf reports whether err is but the end of ctx, which says nothing of the connection.
func endOf(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Cause(ctx)) || status.Code(err) == codes.Canceled || status.Code(err) == codes.DeadlineExceeded
}
