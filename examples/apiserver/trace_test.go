package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// TestTraceToCollector sends a span to where the environment says.
func TestTraceToCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var got spans
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, &got)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := srv.Serve(listener); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer srv.Stop()

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	provider, err := newTracerProvider(t.Context(), "otlp", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer("test").Start(t.Context(), "a read")
	span.End()
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	if len(got.names) != 1 || got.names[0] != "a read" {
		t.Errorf("the collector has %q", got.names)
	}
}

// spans is a collector that keeps the names.
type spans struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	names []string
}

func (s *spans) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				s.names = append(s.names, span.Name)
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// printedSpan is what --trace=stdout prints of a span.
type printedSpan struct {
	Name                string
	SpanContext, Parent spanContext
	Links               []struct{ SpanContext spanContext }
}

type spanContext struct{ TraceID, SpanID string }

// wantTrace wants a LIST over HTTP to be one trace, from the request down to the read
// of the floor, which is linked with the read that caused it.
func wantTrace(t *testing.T, printed []string) {
	t.Helper()
	var spans []printedSpan
	for _, line := range printed {
		var s printedSpan
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &s) == nil {
			spans = append(spans, s)
		}
	}
	find := func(match func(printedSpan) bool) (found printedSpan) {
		if i := slices.IndexFunc(spans, match); i >= 0 {
			found = spans[i]
		}
		return found
	}
	floor := find(func(s printedSpan) bool { return s.Name == "rvfloor floor read" })
	if len(floor.Links) != 1 || floor.Links[0].SpanContext.SpanID != floor.Parent.SpanID {
		t.Errorf("the floor read is not linked with the one read that caused it: %+v", floor)
	}
	var path []string
	for s := floor; s.Name != ""; {
		path = append(path, s.Name)
		s = find(func(parent printedSpan) bool { return parent.SpanContext == s.Parent })
	}
	if len(path) < 3 || path[1] != "rvfloor list" || path[2] != "List" || !strings.HasPrefix(path[len(path)-1], "GET ") {
		t.Errorf("the way up from the floor read is %q, want rvfloor's list, the server's, and so on to the request", path)
	}
}
