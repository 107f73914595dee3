package upstream

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// The trace goes with a request to the server's own origin, and nowhere else.
func TestTraceIsPassedOn(t *testing.T) {
	origin, _ := url.Parse("https://wiki.example/mcp")
	rt := &roundTripper{origin: origin, headers: map[string]string{"X-Key": "k"}}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	for to, want := range map[string]bool{"https://wiki.example/mcp": true, "https://other.example/mcp": false, "http://wiki.example/mcp": false} {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := rt.withHeaders(req).Header.Get("traceparent"); strings.Contains(got, span.TraceID().String()) != want {
			t.Errorf("%s: %q", to, got)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, origin.String(), nil)
	if got := rt.withHeaders(req).Header.Get("traceparent"); got != "" {
		t.Errorf("without a trace: %q", got)
	}
}
