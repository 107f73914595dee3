package tracing

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/propagation"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/thawpool/thawpool/actors"
)

// receiver takes spans by both protocols.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*tracepb.Span
	raw   string
}

func (r *receiver) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw += req.String()
	for _, rs := range req.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var m collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &m)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	res, _ := r.Export(req.Context(), &m)
	out, _ := proto.Marshal(res)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out)
}

func (r *receiver) overHTTP(t *testing.T) string {
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return s.URL
}

func (r *receiver) overGRPC(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return "http://" + l.Addr().String()
}

type runs func(req actors.Request) actors.Result

func (f runs) Run(_ context.Context, req actors.Request) actors.Result { return f(req) }

const parentID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// One call becomes a span with its stages and inner calls, over either protocol, in the caller's own trace.
func TestCallIsTraced(t *testing.T) {
	for protocol, serve := range map[string]func(*receiver, *testing.T) string{"http/protobuf": (*receiver).overHTTP, "grpc": (*receiver).overGRPC} {
		t.Run(protocol, func(t *testing.T) {
			rec := &receiver{}
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", serve(rec, t))
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hunter2")
			if !Wanted() {
				t.Fatal("not wanted")
			}
			tr, err := Open(t.Context(), "v9", zerolog.Nop())
			if err != nil {
				t.Fatal(err)
			}
			var traceID, passed string
			res := tr.Before(runs(func(req actors.Request) actors.Result {
				traceID = req.Trace
				ctx, done := req.Follow.Inner(context.Background(), "call", []byte(`{"key":"hunter2"}`))
				carrier := propagation.MapCarrier{}
				propagation.TraceContext{}.Inject(ctx, carrier)
				passed = carrier["traceparent"]
				done(actors.InnerCall{Server: "wiki", Tool: "read", BytesOut: 3, Outcome: "error"})
				return actors.Result{Status: actors.StatusError, Error: &actors.RunError{Type: "ValueError", Message: "hunter2"}, Stdout: "hunter2",
					Receipt: actors.Receipt{Sandbox: "box", Pool: "hit", QueueMS: 2, ThawMS: 1, RunMS: 3, CallCount: 1}}
			})).Run(t.Context(), actors.Request{ID: "r-1", Code: "hunter2", TraceParent: parentID, TraceState: "a=b", Queued: time.Now().Add(-time.Second)})
			if res.Status != actors.StatusError {
				t.Errorf("%+v", res)
			}
			if err := tr.Close(); err != nil {
				t.Fatal(err)
			}
			rec.mu.Lock()
			defer rec.mu.Unlock()
			if traceID != "0af7651916cd43dd8448eb211c80319c" || !strings.HasPrefix(passed, "00-"+traceID) {
				t.Errorf("trace %s, passed on %s", traceID, passed)
			}
			var names []string
			var root *tracepb.Span
			for _, s := range rec.spans {
				names = append(names, s.Name)
				if s.Name == "run_python" {
					root = s
				}
			}
			if root == nil || len(names) != 6 {
				t.Fatal(names)
			}
			for _, want := range []string{"queue", "thaw", "run", "answer", "wiki.read"} {
				found := false
				for _, s := range rec.spans {
					found = found || s.Name == want && string(s.ParentSpanId) == string(root.SpanId) && s.EndTimeUnixNano >= s.StartTimeUnixNano && s.EndTimeUnixNano <= root.EndTimeUnixNano
				}
				if !found {
					t.Errorf("no child %s in %q", want, names)
				}
			}
			if root.TraceState != "a=b" || !strings.Contains(rec.raw, "v9") || strings.Contains(rec.raw, "hunter2") {
				t.Errorf("%s %s", root.TraceState, rec.raw)
			}
		})
	}
}

func TestWanted(t *testing.T) {
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	if Wanted() {
		t.Error("without any variable")
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	if !Wanted() {
		t.Error("otlp")
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if Wanted() {
		t.Error("disabled")
	}
	t.Setenv("OTEL_SDK_DISABLED", "")
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:1")
	if Wanted() {
		t.Error("none")
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
	if _, err := Open(t.Context(), "v", zerolog.Nop()); err == nil {
		t.Error("an unknown protocol was taken")
	}
}

// A receiver that is not there holds up nothing.
func TestDeadReceiver(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	tr, err := Open(t.Context(), "v", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	r := tr.Before(runs(func(actors.Request) actors.Result { return actors.Result{Status: actors.StatusSuccess} }))
	for range 5000 { // more than what is kept
		r.Run(t.Context(), actors.Request{ID: "1"})
	}
	_ = tr.Close()
}
