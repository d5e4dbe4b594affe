package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/component-base/tracing"
)

// exportTimeout bounds each export, and so how long a collector that is not
// there can hold up the end of the program.
const exportTimeout = 2 * time.Second

// newTracerProvider sends the spans of every request to where --trace says:
// "stdout", a line of JSON each, or "otlp", a collector that the usual
// OTEL_EXPORTER_OTLP_* variables name (without them http://localhost:4317).
func newTracerProvider(ctx context.Context, to string, stdout io.Writer) (tracing.TracerProvider, error) {
	var sink sdktrace.TracerProviderOption
	switch to {
	case "":
		return nil, nil
	case "stdout":
		exporter, err := stdouttrace.New(stdouttrace.WithWriter(stdout))
		if err != nil {
			return nil, fmt.Errorf("--trace=stdout: %w", err)
		}
		sink = sdktrace.WithSyncer(exporter) // each span as it ends: somebody is looking on
	case "otlp":
		options := []otlptracegrpc.Option{
			otlptracegrpc.WithTimeout(exportTimeout),
			otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}),
		}
		if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			options = append(options, otlptracegrpc.WithInsecure())
		}
		exporter, err := otlptracegrpc.New(ctx, options...)
		if err != nil {
			return nil, fmt.Errorf("--trace=otlp: %w", err)
		}
		sink = sdktrace.WithBatcher(exporter)
	default:
		return nil, fmt.Errorf("--trace %q: use stdout or otlp", to)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "rvfloor-example")),
		resource.WithFromEnv()) // OTEL_SERVICE_NAME wins
	if err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	return sdktrace.NewTracerProvider(sink, sdktrace.WithResource(about)), nil
}
