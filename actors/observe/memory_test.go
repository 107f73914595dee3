package observe

import (
	"context"
	"fmt"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/thawpool/thawpool/actors"
)

// heap is the memory that is in use once nothing is waiting to be freed.
func heap() uint64 {
	goruntime.GC()
	goruntime.GC() // what the first one's finalizers held
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.HeapAlloc
}

// More than a day of steady calls (one a second), each as bad as it can be and each different from all others, holds no more
// memory than the first few hundred do.
func TestMemoryOfManyCalls(t *testing.T) {
	const calls, warm = 100_000, 2_000
	m := NewMetrics("v")
	r := NewRecorder(runner(func(_ context.Context, req actors.Request) actors.Result {
		for i := range 2 {
			inner(req, fmt.Sprintf("invented-%s-%d", req.ID, i), "strange-"+req.ID)
		}
		res := answer(req)
		res.Status = actors.StatusError
		res.Error = &actors.RunError{Type: "E" + req.ID}
		res.Stdout, res.Stderr = strings.Repeat(req.ID, 1000), strings.Repeat(req.ID, 1000)
		return res
	}), m, "default", true)
	ctx := t.Context()
	run := func(from, to int) {
		for i := from; i < to; i++ {
			id := fmt.Sprint("request-", i)
			r.Observe(actors.ServerConnected{Server: id})
			r.Observe(actors.SandboxBooted{Profile: "default"})
			r.Run(ctx, actors.Request{ID: id, Code: id + strings.Repeat("c", codeBytes), Profile: "default"})
		}
		w := httptest.NewRecorder()
		promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
		if n := w.Body.Len(); n < 1<<10 || n > 1<<20 {
			t.Errorf("a scrape has %d bytes", n)
		}
	}
	run(0, warm)
	before := heap()
	run(warm, calls)
	after := heap()
	const slack = 2 << 20 // 98000 calls that each left 22 bytes would be more
	if after > before+slack {
		t.Errorf("the heap grew from %d to %d KiB in %d calls", before>>10, after>>10, calls-warm)
	}
	if r.Total() != calls {
		t.Errorf("%d calls", r.Total())
	}
	goruntime.KeepAlive(m)
}
