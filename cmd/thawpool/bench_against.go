package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/thawpool/thawpool/cmd/thawpool/bench"
	"github.com/thawpool/thawpool/runtime/guest"
	"github.com/thawpool/thawpool/runtime/image"
)

// Names that --against knows.
const (
	nameThawpool = "thawpool"
	nameBare     = "bare"
	nameBwrap    = "bwrap"
	namePodman   = "podman"
	nameStock    = "stock"
	stockRuntime = "io.containerd.runc.v2"
)

var againstNames = []string{nameBare, nameBwrap, namePodman, nameStock, nameWatched}

// contender is one way to run Python that takes its turns.
type contender struct {
	name   string
	warm   func(ctx context.Context) (ms float64, err error) // nil: nothing of it starts before its call
	lives  func(ctx context.Context, idle float64) (bench.Round, []bench.Sample, error)
	bare   *bare
	served *served
	looks  *watching // at what is watched
	rounds []bench.Round
	failed error // it takes no more turns
}

// compare is bench --against.
func (b *benchRun) compare(ctx context.Context) (bench.Report, error) {
	boots, err := b.boots(ctx)
	if err != nil {
		return bench.Report{}, err
	}
	dir, remove, err := scratch()
	if err != nil {
		return bench.Report{}, err
	}
	r, err := b.compareIn(ctx, dir)
	if err = errors.Join(err, endPodman(dir), remove()); err != nil {
		return bench.Report{}, err
	}
	for i := range r.Rows {
		if r.Rows[i].Name == nameThawpool {
			r.Rows[i].Boot = percentilesOf(boots)
		}
	}
	return r, nil
}

func (b *benchRun) compareIn(ctx context.Context, dir string) (r bench.Report, err error) {
	all, err := b.contenders(ctx, dir)
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.looks.close())
			if c.served != nil {
				err = errors.Join(err, c.served.close())
			}
		}
	}()
	if err != nil {
		return r, err
	}
	for n := range b.o.rounds {
		b.say("round %d of %d", n+1, b.o.rounds)
		if err := b.round(ctx, all); err != nil {
			return r, err
		}
	}
	b.noteWatched(all)
	for _, c := range all {
		row := bench.Row{Name: c.name}
		row.Fold(c.rounds)
		for _, x := range c.rounds {
			row.WarmAll = append(row.WarmAll, x.Warm...)
		}
		if c.failed != nil {
			b.note("%s takes no part: %v", c.name, c.failed)
		}
		r.Rows = append(r.Rows, row)
	}
	r.Targets, err = b.targets(ctx, all, &r)
	b.notes = append(b.notes, noteCPU, noteMemory,
		fmt.Sprintf("warm: %d round trips a turn, one of each system after the other, each when its pool is full and has settled; bare: "+
			"from the run frame to the exit frame of a process that waits. p99 is of all turns together.", b.o.warmCalls),
		fmt.Sprintf("lives: %d callers for %v a turn, each call in a fresh sandbox or process; before thawpool's are counted its pool is drained.",
			b.o.concurrency, b.o.life),
		"figures are medians of the rounds, [least–most].")
	r.Notes = b.notes
	return r, err
}

// round is one turn of each: the warm answers of all in alternation, then the lives of each.
func (b *benchRun) round(ctx context.Context, all []*contender) error {
	now := make([]bench.Round, len(all))
	for range b.o.warmCalls {
		for i, c := range all {
			if c.warm == nil || c.failed != nil {
				continue
			}
			ms, err := c.warm(ctx)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				c.failed = err
				continue
			}
			now[i].Warm = append(now[i].Warm, ms)
		}
	}
	for i, c := range all {
		if c.failed != nil {
			continue
		}
		idle, err := idleShare(ctx)
		if err != nil {
			return err
		}
		got, samples, err := c.lives(ctx, idle)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		got.Warm, got.Lives = now[i].Warm, bench.Summarize(samples)
		if err == nil && got.Lives.Errors > 0 {
			err = errors.New(got.Lives.FirstError)
		}
		if err != nil {
			c.failed = err
			continue
		}
		c.rounds = append(c.rounds, got)
	}
	return nil
}

// contenders starts what takes part. What it cannot have it notes.
func (b *benchRun) contenders(ctx context.Context, dir string) ([]*contender, error) {
	var all []*contender
	s, err := b.serve(ctx, io.Discard, b.o.profileArgs()...)
	if err != nil {
		return all, err
	}
	all = append(all, b.servedContender(nameThawpool, s))
	if slices.Contains(b.o.against, nameWatched) {
		b.say("starting one that is watched")
		s, w, err := b.serveWatched(ctx, dir)
		if err != nil {
			return all, err
		}
		c := b.servedContender(nameWatched, s)
		c.looks = w
		all = append(all, c)
	}
	if slices.Contains(b.o.against, nameStock) {
		b.say("starting the stock runtime")
		s, err := b.serve(ctx, io.Discard, "--runtime="+stockRuntime)
		if err != nil {
			return all, fmt.Errorf("stock: %w", err)
		}
		all = append(all, b.servedContender(nameStock, s))
	}
	if b.o.upstream > 0 {
		b.note("without a server there are no tool calls: only thawpool, watched and stock are compared")
		return all, nil
	}
	bares := []string{nameBare, nameBwrap, namePodman}
	if !slices.ContainsFunc(bares, func(name string) bool { return slices.Contains(b.o.against, name) }) {
		return all, nil
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return all, err
	}
	b.say("unpacking the image for those without containerd")
	python, err := image.Unpack(ctx, root, b.app.log)
	if err != nil {
		return all, err
	}
	for _, name := range bares {
		if !slices.Contains(b.o.against, name) {
			continue
		}
		f, err := b.bareOf(name, dir, root, python)
		if err != nil {
			b.note("%s takes no part: %v", name, err)
			continue
		}
		all = append(all, b.bareContender(name, f))
	}
	return all, nil
}

func (b *benchRun) servedContender(name string, s *served) *contender {
	c := &contender{name: name, served: s}
	c.warm = func(ctx context.Context) (float64, error) {
		if err := s.full(ctx); err != nil {
			return 0, err
		}
		began := time.Now()
		x := s.sample(ctx, 0)
		took := time.Since(began)
		if x.Err == nil && x.Pool != "hit" {
			x.Err = fmt.Errorf("%w: it was a %s", errNotHad, x.Pool)
		}
		return took.Seconds() * 1000, x.Err
	}
	c.lives = func(ctx context.Context, idle float64) (r bench.Round, samples []bench.Sample, err error) {
		if err := s.full(ctx); err != nil {
			return r, nil, err
		}
		m, err := startMeter(s.pid(), s.herd)
		if err != nil {
			return r, nil, err
		}
		l := b.livesLoad(b.warmup())
		samples = bench.Run(ctx, l, s.sample)
		if err := s.full(ctx); err != nil {
			return r, samples, err
		}
		tree, busy, wall, err := m.used()
		n := len(samples) + l.Warmup
		r.LifeCPU, r.Busy = perLife(tree, n), overIdle(busy, idle, wall, n)
		return r, samples, err
	}
	return c
}

func (b *benchRun) livesLoad(warmup int) bench.Load {
	return bench.Load{Concurrency: b.o.concurrency, Duration: b.o.life, Warmup: warmup}
}

func (b *benchRun) bareContender(name string, f *bare) *contender {
	c := &contender{name: name, bare: f}
	if name == nameBare {
		c.warm = f.warm
	}
	c.lives = func(ctx context.Context, idle float64) (r bench.Round, samples []bench.Sample, err error) {
		before, err := bench.MachineBusy()
		if err != nil {
			return r, nil, err
		}
		began := time.Now()
		samples = bench.Run(ctx, b.livesLoad(0), func(context.Context, int) bench.Sample { return f.life() })
		wall := time.Since(began)
		after, err := bench.MachineBusy()
		r.Busy = overIdle(after-before, idle, wall, len(samples))
		if f.waited {
			var cpu time.Duration
			for _, x := range samples {
				cpu += x.CPU
			}
			r.LifeCPU = perLife(cpu, len(samples))
		}
		return r, samples, err
	}
	return c
}

// bareOf says how a process of that kind is started, as the account that sandboxes belong to.
func (b *benchRun) bareOf(name, dir, root, python string) (*bare, error) {
	f := &bare{code: b.o.program(), waited: name == nameBare} // bwrap and conmon leave processes that others wait for
	env := os.Environ()
	if realRoot() { // serve has prepared it
		a, err := findAccount()
		if err != nil {
			return nil, err
		}
		f.cred = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
		env = a.environ(env)
	}
	inside := guest.Argv(python, guest.Dir)
	switch name {
	case nameBare:
		// The floor must not move with what makes sandboxes faster: it imports module by module, and asyncio with ssl.
		ours := filepath.Join(dir, "guest")
		if err := layPlain(ours, filepath.Join(root, guest.Dir)); err != nil {
			return nil, err
		}
		f.argv = guest.Argv(filepath.Join(root, python), ours)
		f.env, f.dir = append(guest.Env(), guest.PreloadEnv+"=ssl"), filepath.Join(dir, "work")
		return f, os.MkdirAll(f.dir, 0o755)
	case nameBwrap:
		path, err := exec.LookPath("bwrap")
		if err != nil {
			return nil, errors.New("bwrap is not installed")
		}
		f.env = guest.Env()
		f.argv = append([]string{path, "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", guest.Workspace,
			"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--chdir", guest.Workspace}, inside...)
	default:
		f.env = env
		return f, b.podmanBare(f, dir, root, inside)
	}
	return f, b.tryBare(f)
}

// layPlain copies the guest without its bundle.
func layPlain(to, from string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	bundles, err := filepath.Glob(filepath.Join(to, guest.BundlePrefix+"*"))
	for _, bundle := range bundles {
		err = errors.Join(err, os.Remove(bundle))
	}
	return err
}

// tryBare makes one life, and explains why there is none.
func (b *benchRun) tryBare(f *bare) error {
	if x := f.life(); x.Err != nil {
		return fmt.Errorf("it does not run here: %w", x.Err)
	}
	return nil
}
