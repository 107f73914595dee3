package tracing

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/catalog/text"
	"github.com/thawpool/thawpool/pool"
)

// nameBytes bounds a name that code chose.
const nameBytes = 128

// Runner runs calls.
type Runner interface {
	Run(ctx context.Context, req actors.Request) actors.Result
}

// Before gives a runner whose every call is traced.
func (t *Tracing) Before(next Runner) Runner { return &runner{tracer: t.tracer, next: next} }

type runner struct {
	tracer trace.Tracer
	next   Runner
}

// Run implements Runner.
func (r *runner) Run(ctx context.Context, req actors.Request) actors.Result {
	if req.Queued.IsZero() {
		req.Queued = time.Now()
	}
	parent := propagation.TraceContext{}.Extract(context.Background(),
		propagation.MapCarrier{"traceparent": req.TraceParent, "tracestate": req.TraceState})
	spanned, span := r.tracer.Start(parent, "run_python", trace.WithTimestamp(req.Queued), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("thawpool.request", req.ID)))
	req.Trace = span.SpanContext().TraceID().String()
	req.Follow = actors.Followers(req.Follow, follower{tracer: r.tracer, parent: span})
	res := r.next.Run(ctx, req)
	now := time.Now()
	r.stages(spanned, req.Queued, now, &res)
	finish(span, &res)
	span.End(trace.WithTimestamp(now))
	return res
}

// stages are the children that the receipt tells of.
func (r *runner) stages(ctx context.Context, at, now time.Time, res *actors.Result) {
	stage := func(name string, end time.Time) {
		if end.After(now) {
			end = now
		}
		_, span := r.tracer.Start(ctx, name, trace.WithTimestamp(at))
		span.End(trace.WithTimestamp(end))
		at = end
	}
	after := func(ms float64) time.Time { return at.Add(time.Duration(ms * float64(time.Millisecond))) }
	p := res.Receipt
	stage("queue", after(p.QueueMS))
	if p.Sandbox != "" {
		stage("thaw", after(p.ThawMS))
		stage("run", after(p.RunMS))
	}
	stage("answer", now)
}

func finish(span trace.Span, res *actors.Result) {
	p := res.Receipt
	span.SetAttributes(attribute.String("thawpool.status", string(res.Status)), attribute.String("thawpool.pool", p.Pool),
		attribute.String("thawpool.sandbox", p.Sandbox), attribute.Float64("thawpool.cpu_ms", p.CPUMS),
		attribute.Int64("thawpool.peak_memory_bytes", p.PeakBytes), attribute.Int("thawpool.inner_calls", p.CallCount))
	if res.Error != nil {
		span.SetAttributes(attribute.String("error.type", text.Head(res.Error.Type, nameBytes)))
	}
	if res.Status != actors.StatusSuccess {
		span.SetStatus(codes.Error, string(res.Status))
	}
}

// follower makes a span of each call that code makes.
type follower struct {
	tracer trace.Tracer
	parent trace.Span
}

var _ actors.Follower = follower{}

// Leased implements actors.Follower.
func (follower) Leased(string, pool.How) {}

// Thawed implements actors.Follower.
func (follower) Thawed(string) {}

// Inner implements actors.Follower. The context carries the span, which HTTP upstreams are told of.
func (f follower) Inner(ctx context.Context, verb string, args json.RawMessage) (context.Context, func(actors.InnerCall)) {
	ctx, span := f.tracer.Start(trace.ContextWithSpan(ctx, f.parent), text.Head(verb, nameBytes), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.Int("thawpool.bytes_in", len(args))))
	return ctx, func(c actors.InnerCall) {
		if c.Server != "" {
			span.SetName(text.Head(c.Server, nameBytes) + "." + text.Head(c.Tool, nameBytes))
			span.SetAttributes(attribute.String("thawpool.server", text.Head(c.Server, nameBytes)), attribute.String("thawpool.tool", text.Head(c.Tool, nameBytes)))
		}
		span.SetAttributes(attribute.Int("thawpool.bytes_out", c.BytesOut), attribute.String("thawpool.outcome", c.Outcome))
		if c.Outcome != "ok" && c.Outcome != "planned" {
			span.SetStatus(codes.Error, c.Outcome)
		}
		span.End()
	}
}
