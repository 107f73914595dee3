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
			Pool: "hit", Ready: 4 - i%3}
	}
	r := Report{Machine: "2 cores", Command: "thawpool bench", Advice: "pool size 5", Rows: []Row{
		{Name: "bare", Summary: Summarize(samples[:50]), LifeCPU: 100},
		{Name: "thawpool", Summary: Summarize(samples), LifeCPU: 150, FrozenPSS: 12 << 20, Samples: samples},
	}}
	var text, html, js bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"thawpool / bare", "life cpu ×1.50", "100.0 %", "12.0 MiB", "pool size 5"} {
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
	if page := html.String(); strings.Contains(page, "src=") || strings.Contains(page, "<script") {
		t.Error("the page wants something from outside")
	}
	if err := r.WriteJSON(&js); err != nil || !strings.Contains(js.String(), `"hitRate": 1`) {
		t.Errorf("json: %v %s", err, js.String())
	}
}
