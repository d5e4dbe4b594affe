package apiserver

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/probe"
)

// probeLimit lets an etcd be slow: a probe is some 160 calls one after the other. Reads do not wait for it.
const probeLimit = time.Minute

// prober answers what looks at the transport's backend: through the clients that floors and storages use, beside the
// sentinel. Where nothing may be written nothing is known.
func (t *transport) prober(clients *pool, key string, write bool) decorator.Prober {
	if !write {
		return func(context.Context) (decorator.Properties, error) {
			klog.InfoS("Verified reads are answered by etcd, past the watch cache: without a sentinel key nothing may be written, so what the backend can be relied on for cannot be found out. "+
				"Name a key, or a strategy", "backend", t.name)
			return decorator.Properties{}, nil
		}
	}
	cfg := probe.Config{Clients: []*clientv3.Client{clients.floor, clients.shared[0]}, Prefix: probe.PrefixFor(key), Limit: probeLimit}
	return func(ctx context.Context) (decorator.Properties, error) {
		report, err := probe.Observe(untraced(ctx), cfg)
		if err != nil {
			return decorator.Properties{}, err
		}
		t.probed.Store(&report)
		t.logProbe(report)
		if report.Refused() {
			klog.InfoS("Verified reads are answered by etcd, past the watch cache, until its role may write under the prefix, or a strategy is named", "backend", t.name, "prefix", cfg.Prefix)
		}
		return report.Judged()
	}
}

// untraced is a context whose calls are not sampled: some hundred spans that belong to no request.
func untraced(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}))
}

// logProbe says what decides, and what is not as in etcd with the numbers.
func (t *transport) logProbe(report probe.Report) {
	var good []string
	for _, f := range report.Findings {
		switch f.Verdict {
		case decorator.VerdictYes:
			good = append(good, f.Property)
		case decorator.VerdictNo:
			klog.InfoS("The backend was probed, and lacks a property", "backend", t.name, "property", f.Property, "seen", f.Seen, "first", f.Example, "means", f.Means)
		default:
			klog.InfoS("The backend was probed, and a property is not known", "backend", t.name, "property", f.Property, "seen", f.Seen, "means", f.Means)
		}
	}
	klog.InfoS("The backend was probed", "backend", t.name, "has", strings.Join(good, ","), "strategies", report.Strategies, "reason", report.Reason, "milliseconds", report.TookMillis, "writes", report.Writes)
}
