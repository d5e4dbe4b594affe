package main

import (
	"context"
	"io"
	"net"
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
