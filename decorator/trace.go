package decorator

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rvfloor/rvfloor/freshness"
)

// The names of spans. The table in docs/operations.md says what is in them.
const (
	spanFloorRead = "rvfloor floor read"
	spanFloorWait = "rvfloor wait for floor"
	spanCacheWait = "rvfloor wait for cache"
	spanInner     = "rvfloor inner call"
	spanShared    = "rvfloor shared answer"
	spanDirect    = "rvfloor direct call"
)

func (v verb) spanName() string {
	return [...]string{"rvfloor get", "rvfloor list", "rvfloor watch"}[v]
}

// readSpan is the span of a read that is recorded.
type readSpan struct {
	trace.Span
	kicks float64 // of the resource when the read began
}

// startSpan begins the read's span, if it is to be recorded.
func (r *read) startSpan() {
	ctx, span := r.store.backend.tracer.Start(r.ctx, r.verb.spanName())
	if span.IsRecording() {
		r.ctx, r.span = ctx, &readSpan{span, valueOf(r.store.observe.kicks[0])}
	}
}

func (r *read) endSpan(err error, outcome outcome) {
	s := r.store
	r.span.SetAttributes(
		attribute.String("rvfloor.resource", s.resource.GroupResource.String()),
		attribute.String("rvfloor.route", r.route.kind.String()),
		attribute.String("rvfloor.zero_version", string(s.backend.cfg.ZeroVersion)),
		attribute.String("rvfloor.on_unverified", string(s.backend.cfg.OnUnverified)),
		attribute.Bool("rvfloor.shadow", r.shadow),
		attribute.String("rvfloor.outcome", outcome.String()),
		attribute.Int64("rvfloor.applied", int64(s.stream.Revision())),
		attribute.Int64("rvfloor.kicks", int64(valueOf(s.observe.kicks[0])-r.span.kicks)),
	)
	if r.target != 0 {
		r.span.SetAttributes(attribute.Int64("rvfloor.target", int64(r.target)))
	}
	endSpan(r.span, err, outcome.fine())
}

// endSpan ends span. fine says that err is no failure of it.
func endSpan(span trace.Span, err error, fine bool) {
	if err != nil && !fine {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// part is the span of a part of a read, the child of the read's; the zero part is not
// recorded.
type part struct{ span trace.Span }

// part begins a part. The context is for what is called in it.
func (r *read) part(name string) (context.Context, part) {
	if r.span == nil {
		return r.ctx, part{}
	}
	ctx, span := r.store.backend.tracer.Start(r.ctx, name)
	return ctx, part{span}
}

// end ends the part, and returns err.
func (p part) end(err error) error {
	if p.span != nil {
		endSpan(p.span, err, outcomeOf(err).fine())
	}
	return err
}

// call makes a call of a storage as a part of the read.
func (r *read) call(name string, call func(context.Context) error) error {
	ctx, part := r.part(name)
	return part.end(call(ctx))
}

// Traced is freshness.Traced.
func (r *read) Traced() bool { return r.span != nil && r.span.SpanContext().IsSampled() }

// traceFloor is freshness.Hooks.Trace: the one span of a read of the floor, linked
// with the spans of all callers who are traced, and they with it.
//
// It is a child of the first of them. As the root of a trace of its own it would be
// sampled anew, and be missing from most traces where few are sampled. As a child it
// is recorded when they are, by each sampler that goes by the parent or by the trace.
func (b *Backend) traceFloor(ctx context.Context, callers []freshness.Companion) (context.Context, func(freshness.ReadInfo)) {
	var spans []trace.Span
	var links []trace.Link
	for _, caller := range callers {
		// One that has gone ended its span.
		if span := caller.(*read).span.Span; span.IsRecording() {
			spans, links = append(spans, span), append(links, trace.Link{SpanContext: span.SpanContext()})
		}
	}
	if len(spans) == 0 {
		return ctx, func(freshness.ReadInfo) {}
	}
	ctx, floor := b.tracer.Start(trace.ContextWithSpan(ctx, spans[0]), spanFloorRead, trace.WithLinks(links...))
	if !floor.IsRecording() {
		return ctx, func(freshness.ReadInfo) {}
	}
	for _, span := range spans {
		span.AddLink(trace.Link{SpanContext: floor.SpanContext()})
	}
	return ctx, func(info freshness.ReadInfo) {
		floor.SetAttributes(
			attribute.String("rvfloor.backend", b.cfg.Name),
			attribute.String("rvfloor.outcome", string(info.Outcome)),
			attribute.Int64("rvfloor.revision", int64(info.Revision)),
			attribute.Int("rvfloor.callers", info.Callers),
		)
		endSpan(floor, info.Err, info.Outcome == freshness.OutcomeCanceled)
	}
}
