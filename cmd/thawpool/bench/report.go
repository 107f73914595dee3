package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// Report is one `thawpool bench`: a row a system. Several were measured in turns in the same run.
type Report struct {
	Machine string   `json:"machine"`
	Command string   `json:"command"`
	Rows    []Row    `json:"rows"`
	Advice  *Advice  `json:"advice,omitempty"`
	Targets []Target `json:"targets,omitempty"`
	Notes   []string `json:"notes,omitempty"` // how figures came about, and what was left out and why
}

// Row is one system's figures. Zero means not measured.
type Row struct {
	Name    string  `json:"name"`
	Summary Summary `json:"summary"` // of one load

	// What follows comes from rounds; see Round.
	WarmP50   Spread      `json:"warmP50Ms"`
	Warm      Percentiles `json:"warmMs"` // of the round trips of all rounds together
	WarmCalls int         `json:"warmCalls"`
	LifeCPU   Spread      `json:"lifeCpuMs"`
	Busy      Spread      `json:"lifeBusyMs"`
	Rate      Spread      `json:"livesPerSecond"`
	LifeP50   Spread      `json:"lifeP50Ms"`

	Boot      Percentiles `json:"bootMs"`         // from nothing to frozen, with others booting beside it
	FrozenPSS int64       `json:"frozenPssBytes"` // of one sandbox that waits
	Frozen    int         `json:"frozen"`         // among how many that was measured
	IdleCores float64     `json:"idleCores"`      // what those take together while nobody calls, daemons included
	Levels    []Level     `json:"levels,omitempty"`

	Samples []Sample  `json:"-"`
	WarmAll []float64 `json:"-"` // ms
}

// Level is how many sandboxes were frozen and ready at a moment of the load.
type Level struct {
	At    time.Duration `json:"at"` // nanoseconds from its start
	Ready int           `json:"ready"`
}

// WriteText prints the report as tables.
func (r Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n", r.Machine, r.Command)
	for _, write := range []func(io.Writer) error{r.writeLoads, r.writeRounds, r.writeTargets} {
		if err := write(w); err != nil {
			return err
		}
	}
	for _, row := range r.Rows {
		row.writeDetails(w)
	}
	if r.Advice != nil {
		fmt.Fprintf(w, "\n%s\n", r.Advice.Text)
	}
	for i, n := range r.Notes {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, "- "+n)
	}
	return nil
}

func (r Report) writeLoads(w io.Writer) error {
	tw := table(w)
	head := false
	for _, row := range r.Rows {
		s := row.Summary
		if s.Calls == 0 {
			continue
		}
		if !head {
			head = true
			fmt.Fprintln(tw, "\n\tcalls\terrors\tper s\tp50 ms\tp90 ms\tp99 ms\tmax ms\thit\t")
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t\n", row.Name, s.Calls, s.Errors, s.Throughput,
			s.Latency.P50, s.Latency.P90, s.Latency.P99, s.Latency.Max, hitText(s))
	}
	return tw.Flush()
}

func (r Report) writeRounds(w io.Writer) error {
	tw := table(w)
	head := false
	for _, row := range r.Rows {
		if row.Rate.Rounds == 0 && row.WarmP50.Rounds == 0 {
			continue
		}
		if !head {
			head = true
			fmt.Fprintln(tw, "\n\twarm p50 ms\twarm p99\tlives a second\tlife p50 ms\tCPU ms a life\tmachine busy ms a life\t")
		}
		p99 := "-"
		if row.WarmCalls > 0 {
			p99 = digits(row.Warm.P99)
		}
		fmt.Fprintf(tw, "%s\t%v\t%s\t%v\t%v\t%v\t%v\t\n", row.Name, row.WarmP50, p99, row.Rate, row.LifeP50, row.LifeCPU, row.Busy)
	}
	return tw.Flush()
}

func (r Report) writeTargets(w io.Writer) error {
	if len(r.Targets) == 0 {
		return nil
	}
	tw := table(w)
	fmt.Fprintln(tw, "\ntarget\t\tmeasured\tmet\t")
	for _, t := range r.Targets {
		measured, met := digits(t.Measured)+" "+t.Unit, "no"
		if t.Met {
			met = "yes"
		}
		if t.Missing != "" {
			measured, met = t.Missing, "-"
		}
		sign := "≤"
		if t.AtLeast {
			sign = "≥"
		}
		fmt.Fprintf(tw, "%s\t%s %g %s\t%s\t%s\t\n", t.What, sign, t.Limit, t.Unit, measured, met)
	}
	return tw.Flush()
}

func table(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func hitText(s Summary) string {
	if len(s.Pool) == 0 || s.Pool[""] == s.Calls-s.Errors {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*s.HitRate)
}

func (row Row) writeDetails(w io.Writer) {
	s := row.Summary
	if s.Calls > 0 && hitText(s) != "-" {
		fmt.Fprintf(w, "\n%s: queue p50 %.2f p99 %.2f · thaw p50 %.2f p99 %.2f · run p50 %.2f p99 %.2f ms · CPU of the run %.2f ms ·",
			row.Name, s.Queue.P50, s.Queue.P99, s.Thaw.P50, s.Thaw.P99, s.Run.P50, s.Run.P99, s.RunCPU)
		for _, k := range slices.Sorted(maps.Keys(s.Pool)) {
			fmt.Fprintf(w, " %s %d", k, s.Pool[k])
		}
		fmt.Fprintln(w)
	}
	if row.LifeCPU.Rounds == 1 {
		fmt.Fprintf(w, "%s: CPU of a life %v ms by its processes, %v ms by the machine's count\n", row.Name, row.LifeCPU, row.Busy)
	}
	if row.Boot.P50 > 0 {
		fmt.Fprintf(w, "%s: boot p50 %.0f p90 %.0f max %.0f ms\n", row.Name, row.Boot.P50, row.Boot.P90, row.Boot.Max)
	}
	if row.FrozenPSS > 0 {
		fmt.Fprintf(w, "%s: one that waits holds %.1f MiB (PSS, among %d); while all of them idle they take %.2f %% of a core\n",
			row.Name, float64(row.FrozenPSS)/(1<<20), row.Frozen, percent*row.IdleCores)
	}
	if s.Errors > 0 {
		fmt.Fprintf(w, "%s: first error: %s\n", row.Name, s.FirstError)
	}
}

// WriteJSON writes the report for machines.
func (r Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
