package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/observe"
)

const metricsHead = `# Metrics

Made by ` + "`thawpool config metrics`" + ` from the registry itself; a test keeps this file current.

` + "`thawpool serve --listen 127.0.0.1:9464`" + ` serves them at ` + "`/metrics`" + `, with those of Go (` + "`go_…`" + `) and of the process (` + "`process_…`" + `).
Labels are bounded: ` + "`profile`" + ` is a pool of the configuration; ` + "`server`" + ` is an upstream server that was started (at most 100),
` + "`host`" + ` for what code asks of thawpool itself, or ` + "`other`" + `. [docs/alerts.yml](alerts.yml) has alert rules and
[docs/dashboard.json](dashboard.json) a Grafana dashboard.

| metric | type | labels | meaning |
|---|---|---|---|
`

// newMetricsDocsCommand prints docs/metrics.md.
func newMetricsDocsCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "metrics",
		Hidden:      true,
		Annotations: map[string]string{unconfigured: "yes"},
		Short:       "Print docs/metrics.md",
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return printMetricsDocs(cmd.OutOrStdout()) },
	}
}

func printMetricsDocs(w io.Writer) error {
	m := observe.NewMetrics(versionText())
	m.WatchPools(func() (actors.Stats, bool) { return actors.Stats{}, false })
	m.WatchKeeper(func() (observe.Keeper, bool) { return observe.Keeper{}, false })
	var b strings.Builder
	b.WriteString(metricsHead)
	for _, d := range m.Definitions() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, strings.Join(d.Labels, ", "), d.Help)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
