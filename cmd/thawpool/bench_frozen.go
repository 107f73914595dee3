package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/thawpool/thawpool/cmd/thawpool/bench"
	"github.com/thawpool/thawpool/runtime/host"
)

// herd is the sandboxes of one server, seen from outside by their control groups.
type herd struct {
	version host.Version
	parent  string // group of all sandboxes of the daemon
	tag     string // how the server's own begin
}

// sandboxName splits a sandbox's id into what its server's have in common and its number.
var sandboxName = regexp.MustCompile(`^(tp-[0-9a-f]+-\d+-)[^/]*$`)

// findHerd looks for the sandboxes of the server that made the one with this id, which may have gone.
func findHerd(id string) (*herd, error) {
	m := sandboxName.FindStringSubmatch(id)
	if m == nil {
		return nil, fmt.Errorf("sandbox %q has a name of an unknown form", id)
	}
	v, err := host.CgroupVersion()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if group := groupNamed(string(data), m[1]); group != "" {
			return &herd{version: v, parent: path.Dir(group), tag: m[1]}, nil
		}
	}
	return nil, errors.New("no process of a sandbox is to be seen")
}

// groupNamed finds in /proc/PID/cgroup a group whose last name begins with tag.
func groupNamed(text, tag string) string {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (f[0] == "0" || strings.Contains(","+f[1]+",", ",freezer,")) && strings.HasPrefix(path.Base(f[2]), tag) {
			return f[2]
		}
	}
	return ""
}

// groups are those of the server's sandboxes that are frozen.
func (h *herd) groups() ([]host.Group, error) {
	names, err := host.OpenGroup(h.version, h.parent).Children()
	if err != nil {
		return nil, err
	}
	var frozen []host.Group
	for _, name := range names {
		if !strings.HasPrefix(name, h.tag) {
			continue
		}
		g := host.OpenGroup(h.version, path.Join(h.parent, name))
		if is, err := g.Frozen(); err == nil && is { // else it has just gone, or is no sandbox yet
			frozen = append(frozen, g)
		}
	}
	return frozen, nil
}

// ready is how many are frozen.
func (h *herd) ready() (int, error) {
	g, err := h.groups()
	return len(g), err
}

// procs are the processes of the frozen ones.
func (h *herd) procs() (pids []int, sandboxes int, err error) {
	frozen, err := h.groups()
	if err != nil {
		return nil, 0, err
	}
	for _, g := range frozen {
		more, err := g.Procs()
		if err != nil {
			return nil, 0, err
		}
		pids = append(pids, more...)
	}
	return pids, len(frozen), nil
}

const (
	// herdLook is how often a pool is looked at that fills.
	herdLook = 25 * time.Millisecond
	// herdWait bounds it: a hundred boots on a busy machine.
	herdWait = 5 * time.Minute
	// settle lets what a boot leaves behind, such as a freed control group, come to rest.
	settle = 50 * time.Millisecond
	// levelEach is how often the level of the pool is noted during a load.
	levelEach = 250 * time.Millisecond
)

// await waits until so many are frozen, and nothing moves any more.
func (h *herd) await(ctx context.Context, size int) error {
	ctx, cancel := context.WithTimeout(ctx, herdWait)
	defer cancel()
	for {
		n, err := h.ready()
		if err != nil {
			return err
		}
		wait := herdLook
		if n >= size {
			wait = settle
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d sandboxes are frozen: %w", n, size, ctx.Err())
		}
		if n >= size {
			return nil
		}
	}
}

// watch notes the level until stop is called, which gives what was noted.
func (h *herd) watch() (stop func() []bench.Level) {
	var levels []bench.Level
	done := make(chan struct{})
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() {
		tick := time.NewTicker(levelEach)
		defer tick.Stop()
		for {
			if n, err := h.ready(); err == nil {
				levels = append(levels, bench.Level{At: time.Since(start), Ready: n})
			}
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() []bench.Level { close(done); wg.Wait(); return levels }
}

// meter counts the CPU of a server with all that works for it, and of the machine.
type meter struct {
	roots []int
	tree  time.Duration
	busy  time.Duration
	at    time.Time
}

// startMeter begins to count: the tree of the server, and the tree of the daemon that its sandboxes are in.
func startMeter(server int, h *herd) (*meter, error) {
	m := &meter{roots: []int{server}}
	pids, _, err := h.procs()
	if err != nil {
		return nil, err
	}
	all, err := bench.ReadProcesses()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if _, ok := all[pid]; ok {
			m.roots = append(m.roots, all.Top(pid, os.Getpid()))
			break
		}
	}
	m.tree = all.TreeCPU(m.roots...)
	if m.busy, err = bench.MachineBusy(); err != nil {
		return nil, err
	}
	m.at = time.Now()
	return m, nil
}

// used is what was used since the start.
func (m *meter) used() (tree, busy, wall time.Duration, err error) {
	all, err := bench.ReadProcesses()
	if err != nil {
		return 0, 0, 0, err
	}
	now, err := bench.MachineBusy()
	return all.TreeCPU(m.roots...) - m.tree, now - m.busy, time.Since(m.at), err
}

// bootLog reads boot times out of a server's log in JSON.
type bootLog struct {
	mu    sync.Mutex
	rest  string
	boots []time.Duration
}

var bootLine = regexp.MustCompile(`"event":"boot".*"took_ms":([0-9.]+)`)

// Write implements io.Writer.
func (l *bootLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest += string(p)
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok {
			return len(p), nil
		}
		l.rest = rest
		if m := bootLine.FindStringSubmatch(line); m != nil {
			if v, err := strconv.ParseFloat(m[1], 64); err == nil {
				l.boots = append(l.boots, time.Duration(v*float64(time.Millisecond)))
			}
		}
	}
}

// take gives what was logged since the last time, in milliseconds.
func (l *bootLog) take() []float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var v []float64
	for _, d := range l.boots {
		v = append(v, d.Seconds()*1000)
	}
	l.boots = nil
	return v
}
