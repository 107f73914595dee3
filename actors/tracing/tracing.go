// Package tracing makes one OpenTelemetry span of each call, with children for what it went through, and sends them by
// OTLP. The standard OTEL_* variables say where to; without them there is nothing of it. No span holds code, arguments,
// results or messages.
package tracing

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// flushMax is how long the last spans may take to leave: the process must end within two seconds of its input.
	flushMax = 300 * time.Millisecond
	// complainEvery is between two lines about spans that could not be sent.
	complainEvery = time.Minute
)

// Wanted tells whether the environment asks for traces: an OTLP endpoint, or otlp as the exporter.
func Wanted() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	switch os.Getenv("OTEL_TRACES_EXPORTER") {
	case "otlp":
		return true
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	}
	return false
}

// Tracing makes and sends spans. It must be closed.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// Open starts sending as the environment says. version is thawpool's own.
func Open(ctx context.Context, version string, log zerolog.Logger) (*Tracing, error) {
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	// What comes later wins: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
	res, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "thawpool"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var last atomic.Int64
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		now := time.Now().Unix()
		if was := last.Load(); now-was >= int64(complainEvery.Seconds()) && last.CompareAndSwap(was, now) {
			log.Warn().Err(err).Msg("traces cannot be sent")
		}
	}))
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	return &Tracing{provider: p, tracer: p.Tracer("github.com/thawpool/thawpool", trace.WithInstrumentationVersion(version))}, nil
}

// newExporter speaks the protocol that the environment names, HTTP by default as the specification has it. Endpoint,
// headers, certificates and the rest are read by the exporters themselves.
func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or grpc and is %q", protocol)
}

// Close sends what is left, for a moment.
func (t *Tracing) Close() error {
	ctx, end := context.WithTimeout(context.Background(), flushMax)
	defer end()
	return t.provider.Shutdown(ctx)
}
