package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/cmd/thawpool/bench"
)

// served is a server that is measured, with its sandboxes in sight.
type served struct {
	*agent
	herd   *herd
	size   int // frozen ones when its pool is full
	code   string
	config string // file that defines the server which code calls; "" without one
}

// serve starts a server, and waits until its pool is full.
func (b *benchRun) serve(ctx context.Context, log io.Writer, args ...string) (_ *served, err error) {
	args = append(append([]string{}, b.pass...), args...)
	s := &served{size: b.app.cfg.Pool.Size, code: b.o.program()}
	if b.o.upstream > 0 {
		if s.config, err = b.upstreamConfig(); err != nil {
			return nil, err
		}
		args = append(args, "--servers-config="+s.config)
	}
	said := &tail{}
	if s.agent, err = startAgent(ctx, io.MultiWriter(said, log), args...); err == nil {
		err = s.open(ctx)
	}
	if err != nil {
		_ = s.close()
		return nil, said.explain(err)
	}
	return s, nil
}

// close ends the server.
func (s *served) close() (err error) {
	if s.agent != nil {
		err = s.agent.close()
	}
	if s.config != "" { // the server looks at it for as long as it lives
		err = errors.Join(err, os.Remove(s.config))
	}
	return err
}

// tail keeps the end of a server's log, for when it fails.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// tailMost is some lines of log.
const tailMost = 2 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-tailMost):]
	return len(p), nil
}

// explain adds what the server said last.
func (t *tail) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.b) == 0 {
		return err
	}
	return fmt.Errorf("%w; the server's log ends with:\n%s", err, bytes.TrimSpace(t.b))
}

// open makes the first call, and finds the sandboxes.
func (s *served) open(ctx context.Context) error {
	if err := s.first(ctx, s.code); err != nil {
		return err
	}
	// A sandbox that runs is to be seen for certain.
	res, text, err := s.run(ctx, map[string]any{"code": "pass"})
	if err == nil && res.Status != actors.StatusSuccess {
		err = fmt.Errorf("a call ended as %s: %s", res.Status, ending(text))
	}
	if err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(herdLook) {
		if s.herd, err = findHerd(res.Receipt.Sandbox); err == nil || time.Since(began) > herdWait || s.size == 0 {
			break
		}
	}
	if err != nil {
		return err
	}
	return s.full(ctx)
}

// full waits until the pool is full.
func (s *served) full(ctx context.Context) error { return s.herd.await(ctx, s.size) }

// sample makes one call.
func (s *served) sample(ctx context.Context, _ int) bench.Sample {
	res, text, err := s.run(ctx, map[string]any{"code": s.code})
	if err == nil && res.Status != actors.StatusSuccess {
		err = fmt.Errorf("%s: %s", res.Status, ending(text))
	}
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	r := res.Receipt
	return bench.Sample{Pool: r.Pool, Queue: ms(r.QueueMS), Thaw: ms(r.ThawMS), Run: ms(r.RunMS), CPU: ms(r.CPUMS), Err: err}
}

// upstreamConfig writes the definition of the small server that code calls.
func (b *benchRun) upstreamConfig() (string, error) {
	// Whoever starts it is this program too, at a place that its account can reach.
	def := map[string]any{"mcpServers": map[string]any{"bench": map[string]any{"command": "/proc/self/exe", "args": []string{benchUpstreamName}}}}
	data, err := json.Marshal(def)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "thawpool-bench-*.json")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	// That it starts itself is meant: serve takes this variable over from here.
	return f.Name(), errors.Join(err, f.Close(), os.Setenv(config.EnvAllowSelf, "1"))
}

// load measures one server under one load: bench without --against.
func (b *benchRun) load(ctx context.Context) (bench.Report, error) {
	boots, err := b.boots(ctx)
	if err != nil {
		return bench.Report{}, err
	}
	s, err := b.serve(ctx, io.Discard, b.o.profileArgs()...)
	if err != nil {
		return bench.Report{}, err
	}
	row, err := b.loadRow(ctx, s)
	if err = errors.Join(err, s.close()); err != nil {
		return bench.Report{}, err
	}
	row.Boot = percentilesOf(boots)
	r := bench.Report{Rows: []bench.Row{row}}
	r.Advice, err = b.advise(row)
	r.Notes = append(b.notes, noteCPU, noteMemory)
	return r, err
}

// loadRow is the frozen sandboxes, and then the load.
func (b *benchRun) loadRow(ctx context.Context, s *served) (bench.Row, error) {
	row := bench.Row{Name: "thawpool"}
	if err := b.frozen(ctx, s, &row); err != nil {
		return row, err
	}
	idle, err := idleShare(ctx)
	if err != nil {
		return row, err
	}
	m, err := startMeter(s.pid(), s.herd)
	if err != nil {
		return row, err
	}
	l := b.plan()
	calls := l.Warmup
	progress, end := b.progress(l)
	var stop func() []bench.Level
	l.Progress, l.Begin = progress, func() { stop = s.herd.watch() }
	row.Samples = bench.Run(ctx, l, s.sample)
	row.Levels = stop()
	end()
	calls += len(row.Samples)
	if err := ctx.Err(); err != nil {
		return row, context.Cause(ctx)
	}
	row.Summary = bench.Summarize(row.Samples)
	// Every life that the load began is whole once the pool is full again.
	if err := s.full(ctx); err != nil {
		return row, err
	}
	tree, busy, wall, err := m.used()
	row.LifeCPU = bench.SpreadOf([]float64{perLife(tree, calls)})
	if v := overIdle(busy, idle, wall, calls); v > 0 {
		row.Busy = bench.SpreadOf([]float64{v})
	}
	return row, err
}

// plan is the load that was asked for.
func (b *benchRun) plan() bench.Load {
	l := bench.Load{Concurrency: b.o.concurrency, Calls: b.o.calls, Duration: b.o.duration, Warmup: b.o.warmup, Seed: b.o.seed}
	if b.o.rate > 0 {
		l.Concurrency, l.Rate = 0, b.o.rate
	}
	if l.Warmup < 0 {
		l.Warmup = b.warmup()
	}
	return l
}

// warmup takes what was frozen before a closed loop, so that what is counted is what the refill makes.
func (b *benchRun) warmup() int { return b.app.cfg.Pool.Size + 2*b.o.concurrency }

// progress shows a bar where a person looks on.
func (b *benchRun) progress(l bench.Load) (step func(int), end func()) {
	f, ok := b.err.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return nil, func() {}
	}
	most := l.Calls
	if most == 0 {
		most = -1 // a spinner
	}
	bar := progressbar.NewOptions(most, progressbar.OptionSetWriter(f), progressbar.OptionSetDescription("calls"),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
	return func(n int) { _ = bar.Set(n) }, func() { _ = bar.Finish() }
}

const (
	noteCPU = "CPU of a life: all of a sandbox from boot to removal, and the server's and daemon's work for it. By processes: what the server's " +
		"and the daemon's process trees used from a full pool until it is full again, over the calls between. Machine: busy time of " +
		"/proc/stat over the same, the client included, less what the machine was busy with just before; only it has kernel threads, " +
		"and processes that end with their pid namespace."
	noteMemory = "PSS: all processes of a sandbox, by smaps_rollup; pages that sandboxes share count in parts."
)

// perLife is in milliseconds.
func perLife(d time.Duration, lives int) float64 {
	if lives == 0 {
		return 0
	}
	return d.Seconds() * 1000 / float64(lives)
}

// overIdle is what the machine was busy for beyond the share that others kept busy before, in milliseconds a life. Where
// those others vary by more than the bench uses it is nothing to go by, and may even be negative.
func overIdle(busy time.Duration, idle float64, wall time.Duration, lives int) float64 {
	return perLife(busy-time.Duration(idle*float64(wall)), lives)
}

// idleLook is how long the machine is watched doing nothing of ours.
const idleLook = 2 * time.Second

// idleShare is how many processors are busy with other things than the bench.
func idleShare(ctx context.Context) (float64, error) {
	before, err := bench.MachineBusy()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if !pause(ctx, idleLook, nil) {
		return 0, context.Cause(ctx)
	}
	after, err := bench.MachineBusy()
	return (after - before).Seconds() / time.Since(began).Seconds(), err
}

// Frozen sandboxes are watched for frozenLook: at /proc's hundredths of a second it shows a thousandth of a core. Before that,
// for frozenSettle, those who made them collect their garbage.
const (
	frozenSettle = 5 * time.Second
	frozenLook   = 10 * time.Second
)

// frozen measures what sandboxes hold and use that wait.
func (b *benchRun) frozen(ctx context.Context, s *served, row *bench.Row) error {
	pids, n, err := s.herd.procs()
	if err != nil || n == 0 {
		return err
	}
	pss, err := bench.PSS(pids...)
	if err != nil {
		return err
	}
	row.FrozenPSS, row.Frozen = pss/int64(n), n
	if !pause(ctx, frozenSettle, nil) {
		return context.Cause(ctx)
	}
	m, err := startMeter(s.pid(), s.herd)
	if err != nil {
		return err
	}
	if !pause(ctx, frozenLook, nil) {
		return context.Cause(ctx)
	}
	tree, _, wall, err := m.used()
	row.IdleCores = tree.Seconds() / wall.Seconds()
	return err
}

// boots measures boots as they are under load: in a server of its own, since its log costs something.
func (b *benchRun) boots(ctx context.Context) ([]float64, error) {
	b.say("boots")
	log := &bootLog{}
	s, err := b.serve(ctx, log, "--log-level=debug", "--log-format=json")
	if err != nil {
		return nil, err
	}
	log.take() // those of the start, before the daemon was warm
	bench.Run(ctx, bench.Load{Concurrency: b.o.concurrency, Calls: 3 * max(s.size, 4)}, s.sample)
	return log.take(), s.close()
}

func percentilesOf(ms []float64) bench.Percentiles {
	return bench.Percentiles{P50: bench.Quantile(ms, 0.5), P90: bench.Quantile(ms, 0.9), P99: bench.Quantile(ms, 0.99), Max: bench.Quantile(ms, 1)}
}

// destroyTime is what a removal takes, for the check of the advice; it hardly matters there.
const destroyTime = 30 * time.Millisecond

// advise sizes the pool for the load that was measured.
func (b *benchRun) advise(row bench.Row) (*bench.Advice, error) {
	rate, boot := b.o.rate, row.Boot.P50
	if rate == 0 {
		// A closed loop has no rate of its own: half of what it can sustain leaves room for bursts.
		rate = row.Summary.Throughput / 2
		b.note("the pool size is for independent calls at half the measured throughput; use --rate for a load of your own")
	}
	if rate == 0 || boot == 0 {
		return nil, nil // every call failed, as the report says
	}
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	a, err := bench.Recommend(b.app.cfg.Pool, bench.Demand{
		Rate: rate, Boot: ms(boot), Run: ms(max(row.Summary.Run.P50, 1)), Destroy: destroyTime, Seed: b.o.seed,
	})
	return &a, err
}

// scratch is a directory that the account which runs sandboxes can read.
func scratch() (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("/var/tmp", "thawpool-bench-")
	if err != nil {
		return "", nil, err
	}
	return dir, func() error { return os.RemoveAll(dir) }, os.Chmod(filepath.Clean(dir), 0o755)
}
