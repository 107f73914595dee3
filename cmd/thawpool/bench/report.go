package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// Report is one `thawpool bench`: a row a system that was measured in turns in the same run.
type Report struct {
	Machine string `json:"machine"`
	Command string `json:"command"`
	Rows    []Row  `json:"rows"`
	// Advice is the recommended pool size with its reasoning.
	Advice string `json:"advice,omitempty"`
}

// Row is one system's figures. Zero means not measured.
type Row struct {
	Name    string  `json:"name"`
	Summary Summary `json:"summary"`
	// LifeCPU is the CPU of the whole machine over the load, in milliseconds a call: boots, daemons and client included.
	LifeCPU float64 `json:"lifeCpuMs,omitempty"`
	// Boot is how long a sandbox takes from nothing to frozen.
	Boot Percentiles `json:"bootMs"`
	// FrozenPSS is the proportional memory of one frozen sandbox, in bytes.
	FrozenPSS int64    `json:"frozenPssBytes,omitempty"`
	Samples   []Sample `json:"-"`
}

// WriteText prints the report as tables; ratios are to the first row, the floor, when there are several.
func (r Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n\n", r.Machine, r.Command)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tcalls\terrors\tper s\tp50 ms\tp90 ms\tp99 ms\tmax ms\thit\tlife cpu ms\t")
	for _, row := range r.Rows {
		s := row.Summary
		fmt.Fprintf(tw, "%s\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t%.1f\t\n", row.Name, s.Calls, s.Errors, s.Throughput,
			s.Latency.P50, s.Latency.P90, s.Latency.P99, s.Latency.Max, hitText(s), row.LifeCPU)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		row.writeDetails(w)
	}
	if len(r.Rows) > 1 {
		r.writeRatios(w)
	}
	if r.Advice != "" {
		fmt.Fprintf(w, "\n%s\n", r.Advice)
	}
	return nil
}

func hitText(s Summary) string {
	if len(s.Pool) == 0 || s.Pool[""] == s.Calls-s.Errors {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*s.HitRate)
}

func (row Row) writeDetails(w io.Writer) {
	s := row.Summary
	if hitText(s) != "-" {
		fmt.Fprintf(w, "\n%s: queue p50 %.2f p99 %.2f · thaw p50 %.2f p99 %.2f · run p50 %.2f p99 %.2f ms · run cpu %.2f ms ·",
			row.Name, s.Queue.P50, s.Queue.P99, s.Thaw.P50, s.Thaw.P99, s.Run.P50, s.Run.P99, s.RunCPU)
		for _, k := range slices.Sorted(maps.Keys(s.Pool)) {
			fmt.Fprintf(w, " %s %d", k, s.Pool[k])
		}
		fmt.Fprintln(w)
	}
	if row.Boot.P50 > 0 {
		fmt.Fprintf(w, "%s: boot p50 %.0f p90 %.0f max %.0f ms\n", row.Name, row.Boot.P50, row.Boot.P90, row.Boot.Max)
	}
	if row.FrozenPSS > 0 {
		fmt.Fprintf(w, "%s: one frozen sandbox holds %.1f MiB (PSS)\n", row.Name, float64(row.FrozenPSS)/(1<<20))
	}
	if s.Errors > 0 {
		fmt.Fprintf(w, "%s: first error: %s\n", row.Name, s.FirstError)
	}
}

func (r Report) writeRatios(w io.Writer) {
	floor := r.Rows[0]
	for _, row := range r.Rows[1:] {
		s, f := row.Summary, floor.Summary
		fmt.Fprintf(w, "%s / %s: p50 ×%.2f, p99 ×%.2f, life cpu ×%.2f, rate ×%.2f\n", row.Name, floor.Name,
			ratio(s.Latency.P50, f.Latency.P50), ratio(s.Latency.P99, f.Latency.P50),
			ratio(row.LifeCPU, floor.LifeCPU), ratio(s.Throughput, f.Throughput))
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// WriteJSON writes the report for machines.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
