package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/observe"
)

// docs/metrics.md is made from the registry.
func TestMetricsDocs(t *testing.T) {
	var out bytes.Buffer
	if err := printMetricsDocs(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/metrics.md", out.Bytes())
}

// Dashboard and alerts name only metrics that there are, and every alert is explained.
func TestDashboardAndAlerts(t *testing.T) {
	m := observe.NewMetrics("v")
	m.WatchPools(func() (actors.Stats, bool) { return actors.Stats{}, false })
	m.WatchKeeper(func() (observe.Keeper, bool) { return observe.Keeper{}, false })
	known := map[string]bool{}
	for _, d := range m.Definitions() {
		known[d.Name] = true
		if d.Type == "histogram" {
			known[d.Name+"_bucket"] = true
		}
	}
	word := regexp.MustCompile(`\bthawpool_[a-z_]+`)
	for _, file := range []string{"dashboard.json", "alerts.yml"} {
		text, err := os.ReadFile("../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(text) {
			t.Errorf("%s is no JSON", file)
		}
		names := word.FindAllString(string(text), -1)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, n := range names {
			if !known[n] {
				t.Errorf("%s names %s, which is no metric", file, n)
			}
		}
	}
	alerts, _ := os.ReadFile("../../docs/alerts.yml")
	explained, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(alerts, -1) {
		if !bytes.Contains(explained, a[1]) {
			t.Errorf("docs/operations.md does not explain %s", a[1])
		}
	}
}

// promtool accepts rules and a scrape. Debian's package prometheus has it.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is needed: apt-get install prometheus")
		}
		t.Skip("promtool is not there: apt-get install prometheus")
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "../../docs/alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	m := observe.NewMetrics("v")
	w := httptest.NewRecorder()
	promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = w.Body
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
