package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestReportsSayWhatWasMeasured(t *testing.T) {
	t.Parallel()
	samples := make([]Sample, 200)
	for i := range samples {
		samples[i] = Sample{At: time.Duration(i) * 20 * time.Millisecond, Latency: time.Duration(1+i%7) * time.Millisecond,
			Pool: "hit"}
	}
	thaw := Row{Name: "thawpool", Summary: Summarize(samples), FrozenPSS: 12 << 20, Frozen: 8, IdleCores: 0.005, Samples: samples,
		Levels: []Level{{0, 8}, {time.Second, 5}, {2 * time.Second, 7}}}
	thaw.Fold([]Round{
		{Warm: []float64{1, 2, 3}, LifeCPU: 150, Busy: 160, Lives: Summary{Throughput: 5}},
		{Warm: []float64{2, 4, 6}, LifeCPU: 170, Busy: 170, Lives: Summary{Throughput: 7}},
		{Warm: []float64{2, 3, 9}, LifeCPU: 140, Busy: 150, Lives: Summary{Throughput: 6}},
	})
	bare := Row{Name: "bare"}
	bare.Fold([]Round{{Warm: []float64{1, 1}, LifeCPU: 100, Lives: Summary{Throughput: 8}}})
	r := Report{Machine: "2 cores", Command: "thawpool bench", Advice: &Advice{Text: "pool size 5"}, Rows: []Row{bare, thaw},
		Targets: Targets(Figures{Floor: &bare, Thawpool: &thaw, IdleCores: -1}), Notes: []string{"podman is not installed"}}
	var text, html, js bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3.00 [2.00–4.00]", "150 [140–170]", "6.00 [5.00–7.00]", "1.50 ×", "100.0 %", "12.0 MiB",
		"pool size 5", "- podman is not installed", "not measured in this run", "0.50 % of a core"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("text lacks %q:\n%s", want, text.String())
		}
	}
	if err := r.WriteHTML(&html); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(html.String(), "<svg"); n != 3 {
		t.Errorf("%d charts, want 3", n)
	}
	if page := html.String(); strings.Contains(page, "src=") || strings.Contains(page, "<script") || strings.Contains(page, "@import") {
		t.Error("the page wants something from outside")
	}
	if err := r.WriteJSON(&js); err != nil || !strings.Contains(js.String(), `"hitRate": 1`) {
		t.Errorf("json: %v %s", err, js.String())
	}
}
