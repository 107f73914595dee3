package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/cmd/thawpool/bench"
)

// benchOptions is what bench can be told besides what it passes on to serve.
type benchOptions struct {
	concurrency int
	rate        float64
	calls       int
	duration    time.Duration
	warmup      int
	seed        uint64

	code     string
	file     string
	output   sizeValue
	upstream int

	against   []string
	rounds    int
	warmCalls int
	life      time.Duration
	idle      int

	front    bool
	simulate bool
	boot     time.Duration
	run      time.Duration

	asJSON  bool
	html    string
	profile string
}

// What bench does when nothing else is asked.
const (
	benchCalls     = 200 // enough for a p99 that two calls decide
	benchRounds    = 5
	benchWarmCalls = 40
	benchLife      = 8 * time.Second
	benchIdle      = 100
	benchCode      = "print(6 * 7)"
)

func newBenchCommand(a *app) *cobra.Command {
	o := &benchOptions{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure calls of a real server, compare with bare Python, and size the pool",
		Long: `Start thawpool serve, as a client would, and measure calls over MCP: throughput, latency, hit rate, boot time, CPU and
memory of a sandbox, and the pool size that the measured load needs. Flags that serve has too are passed on to it.

With --against the same is done in turns with other ways to run Python: bare (the same runner on a pipe, no sandbox),
bwrap, podman, stock (containerd's own shim), watched (thawpool with metrics, traces, audit and self-check). Without a sandbox is the floor that the targets are ratios to.`,
		Example: `  thawpool bench --concurrency 4 --calls 200
  thawpool bench --rate 5 --duration 1m --html bench.html
  thawpool bench --against bare,bwrap,podman,stock
  thawpool bench --against watched --idle 0
  thawpool bench --simulate --rate 8 --pool-size 6
  thawpool bench --front`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd, o) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *benchOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.concurrency, "concurrency", 2*goruntime.NumCPU(), "closed loop: callers, each with one call after another")
	f.Float64Var(&o.rate, "rate", 0, "open loop: calls a second that come independently of each other (Poisson)")
	f.IntVar(&o.calls, "calls", benchCalls, "calls that are counted; with --duration unbounded")
	f.DurationVar(&o.duration, "duration", 0, "for how long calls are made")
	f.IntVar(&o.warmup, "warmup", -1, "calls before those that are counted (default the pool's size and some)")
	f.Uint64Var(&o.seed, "seed", 1, "of random arrivals, so that a run can be repeated")
	f.StringVar(&o.code, "code", benchCode, "Python `source` of each call")
	f.StringVar(&o.file, "file", "", "Python `file` of each call")
	o.output = 0
	f.Var(&o.output, "output-bytes", "let each call write so much more output")
	f.IntVar(&o.upstream, "upstream", 0, "let each call make so many tool calls to a small server of its own")
	f.StringSliceVar(&o.against, "against", nil, "compare in turns with: bare, bwrap, podman, stock, watched")
	f.IntVar(&o.rounds, "rounds", benchRounds, "turns of each with --against")
	f.IntVar(&o.warmCalls, "warm-calls", benchWarmCalls, "warm answers of each in a turn with --against")
	f.DurationVar(&o.life, "life", benchLife, "how long fresh lives are made in a turn with --against")
	f.IntVar(&o.idle, "idle", benchIdle, "frozen sandboxes whose idling is measured with --against; 0 for none")
	f.BoolVar(&o.front, "front", false, "measure the front alone, with a sandbox that answers at once and is none")
	f.BoolVar(&o.simulate, "simulate", false, "simulate the pool under several patterns of arrivals, and measure nothing")
	f.DurationVar(&o.boot, "boot-time", 200*time.Millisecond, "what a boot takes in the simulation")
	f.DurationVar(&o.run, "run-time", 50*time.Millisecond, "what a call takes in the simulation")
	f.StringVar(&o.profile, profileFlag, "", "let the measured server write its CPU profile to this `file`")
	_ = f.MarkHidden(profileFlag)
	f.BoolVar(&o.asJSON, "json", false, "print the report as JSON")
	f.StringVar(&o.html, "html", "", "write the report with charts to this `file` too, which needs nothing else to be read")
}

// validate reports all that cannot be used, joined.
func (o *benchOptions) validate(f *pflag.FlagSet) error {
	var errs []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, &FieldError{Field: field, Err: fmt.Errorf(format, args...)})
		}
	}
	check(o.concurrency >= 1, "concurrency", "must be at least 1 and is %d", o.concurrency)
	check(o.rate >= 0, "rate", "must not be negative")
	check(o.rate == 0 || !f.Changed("concurrency"), "rate", "does not go with --concurrency: either calls wait for answers or they do not")
	check(o.calls >= 1, "calls", "must be at least 1 and is %d", o.calls)
	check(o.duration >= 0, "duration", "must not be negative")
	check(o.file == "" || !f.Changed("code"), "file", "does not go with --code")
	check(o.upstream >= 0, "upstream", "must not be negative")
	check(o.rounds >= 1, "rounds", "must be at least 1 and is %d", o.rounds)
	check(o.warmCalls >= 1, "warm-calls", "must be at least 1 and is %d", o.warmCalls)
	check(o.life >= time.Second, "life", "must be at least 1s and is %v", o.life)
	check(o.idle >= 0, "idle", "must not be negative")
	check(o.boot > 0, "boot-time", "must be more than 0")
	check(o.run > 0, "run-time", "must be more than 0")
	for _, name := range o.against {
		check(slices.Contains(againstNames, name), "against", "knows %s and not %q", strings.Join(againstNames, ", "), name)
	}
	if o.duration > 0 && !f.Changed("calls") {
		o.calls = 0
	}
	return errors.Join(errs...)
}

func (a *app) bench(cmd *cobra.Command, o *benchOptions) error {
	if err := o.validate(cmd.Flags()); err != nil {
		return err
	}
	if o.file != "" {
		data, err := os.ReadFile(o.file)
		if err != nil {
			return fmt.Errorf("read the code: %w", err)
		}
		o.code = string(data)
	}
	a.cfg.narrow(a.cfg.chosen()) // what its server's calls get
	if o.simulate {
		return a.benchSimulate(cmd.OutOrStdout(), o)
	}
	b := &benchRun{app: a, o: o, pass: passedOn(cmd, a.options), err: cmd.ErrOrStderr()}
	var report bench.Report
	var err error
	switch {
	case o.front:
		report, err = b.front(cmd.Context())
	case len(o.against) > 0:
		report, err = b.compare(cmd.Context())
	default:
		report, err = b.load(cmd.Context())
	}
	if err != nil {
		return err
	}
	report.Machine, report.Command = machineText(), commandText(os.Args)
	return writeReport(report, cmd.OutOrStdout(), o)
}

// writeReport gives the report in every form that was asked for.
func writeReport(r bench.Report, out io.Writer, o *benchOptions) error {
	if o.html != "" {
		f, err := os.Create(o.html)
		if err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
		if err := errors.Join(r.WriteHTML(f), f.Close()); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if o.asJSON {
		return r.WriteJSON(out)
	}
	return r.WriteText(out)
}

// passedOn are the flags that were given and that serve has too.
func passedOn(cmd *cobra.Command, opts []option) []string {
	var args []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		ours := f.Name == configFlag || slices.ContainsFunc(opts, func(o option) bool { return o.name == f.Name })
		if ours {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}

// machineText says on what was measured.
func machineText() string {
	model := "unknown processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty where it cannot be read
	load, _ := os.ReadFile("/proc/loadavg")
	before, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%d × %s, Linux %s, load at the end %s, thawpool %s", goruntime.NumCPU(), model, strings.TrimSpace(string(kernel)), before, versionText())
}

// commandText is the command line as it would be typed.
func commandText(args []string) string {
	words := []string{filepath.Base(args[0])}
	for _, a := range args[1:] {
		if strings.ContainsAny(a, " \t\n'\"$\\*?;&|<>()") || a == "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// benchRun is one bench at work.
type benchRun struct {
	app   *app
	o     *benchOptions
	pass  []string // serve's flags
	err   io.Writer
	notes []string
}

// note adds to what the report says of itself.
func (b *benchRun) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// say tells whoever waits what is going on.
func (b *benchRun) say(format string, args ...any) {
	fmt.Fprintf(b.err, "bench: "+format+"\n", args...)
}

// profileArgs lets the server that is measured be profiled.
func (o *benchOptions) profileArgs() []string {
	if o.profile == "" {
		return nil
	}
	return []string{"--" + profileFlag + "=" + o.profile}
}

// program is the source of each call: what was asked for, with output and tool calls as asked for.
func (o *benchOptions) program() string {
	code := o.code
	if o.output > 0 {
		code += fmt.Sprintf("\nprint(('x' * 79 + '\\n') * %d + 'x' * %d, end='')", o.output/80, o.output%80)
	}
	if o.upstream > 0 {
		code += fmt.Sprintf("\nfor _ in range(%d):\n    assert (await mcp_bench.echo(text='x' * 64)) == 'x' * 64", o.upstream)
	}
	return code
}

var errNotHad = errors.New("no answer of the kind that was to be measured")

// warmStart bounds how long a server may take to answer first: on a new machine it makes the image.
const warmStart = 5 * time.Minute

// first makes the first call of a server, again for as long as it says that sandboxes are still coming up.
func (a *agent) first(ctx context.Context, code string) error {
	ctx, cancel := context.WithTimeout(ctx, warmStart)
	defer cancel()
	for {
		res, text, err := a.run(ctx, map[string]any{"code": code})
		switch {
		case err != nil:
			return err
		case res.Status == actors.StatusSuccess:
			return nil
		case res.Status != actors.StatusRejected || ctx.Err() != nil:
			return fmt.Errorf("the first call ended as %s: %s", res.Status, ending(text))
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
		}
	}
}

// ending is the part of an answer's text that says why it failed.
func ending(text string) string {
	const most = 400 // bytes: a traceback's last lines
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "")
}
