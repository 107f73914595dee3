package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

const (
	// lockPoll is how often a process that waits for another's start looks again.
	lockPoll = 10 * time.Millisecond
	// probePatience is how long a healthy daemon may take to say so before Ensure looks closer.
	probePatience = 2 * time.Second
	// keeperPatience is how long a keeper may take until its daemon serves. It is longer than a keeper needs to notice a
	// hanging containerd (healthEvery, healthPatience, healthStrikes) and to start another (bootPatience). After it the
	// keeper itself is taken for hung and replaced.
	keeperPatience = 90 * time.Second
	// shortestPoll and longestPoll are how often something is looked at that is about to happen.
	shortestPoll = 5 * time.Millisecond
	longestPoll  = 50 * time.Millisecond
)

// Daemon is a running private containerd, in use by this process until Close.
type Daemon struct {
	layout layout
	record record
	user   *user
	proc   *process // containerd
	// inside maps a path below the state directory to what containerd sees.
	inside func(string) string
	socket string
	lost   chan struct{}
	closed sync.Once
	ended  chan struct{} // closed when the goroutine that watches has ended
}

// Ensure gives the daemon of this user and state directory: one that runs, or a new one. It replaces one that has died
// or hangs. The daemon stays at least until Close, or until this process ends. Errors wrap runtime.ErrUnavailable, or
// runtime.ErrUnsupported where only a change of the host helps.
func Ensure(ctx context.Context, c Config) (*Daemon, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	l, err := openLayout(c.StateDir)
	if err != nil {
		return nil, err
	}
	start := flock.New(l.path("start.lock"))
	if _, err := start.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("%w: another process is starting it: %w", runtime.ErrUnavailable, err)
	}
	defer func() { _ = start.Close() }()
	u, err := register(l)
	if err != nil {
		return nil, err
	}
	proc, r, err := find(ctx, c, l)
	if err != nil {
		u.close(l)
		return nil, fmt.Errorf("private containerd: %w", err)
	}
	return newDaemon(&Daemon{layout: l, record: r, user: u, proc: proc, inside: l.inside, socket: l.socket()}), nil
}

// newDaemon begins the watch for the daemon's end.
func newDaemon(d *Daemon) *Daemon {
	d.lost, d.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(d.ended)
		if err := d.proc.wait(); err == nil {
			close(d.lost)
		} // else Close was called
	}()
	return d
}

// Address is containerd's socket.
func (d *Daemon) Address() string { return d.socket }

// FIFODir is the directory for the FIFOs of sandboxes, seen from this process.
func (d *Daemon) FIFODir() string { return d.layout.path("fifo") }

// Inside is the path that containerd and its shims have for a path below the state directory.
func (d *Daemon) Inside(path string) string { return d.inside(path) }

// PID is containerd's process.
func (d *Daemon) PID() int { return d.proc.pid }

// CgroupBase is where the control groups of sandboxes belong: the cgroup version, the group's path from outside (for
// host.OpenGroup), and the path that specs must name, which differs where the daemon has a cgroup namespace.
func (d *Daemon) CgroupBase() (v host.Version, hostPath, specPath string) {
	return d.record.Cgroup, d.record.HostPath, d.record.SpecPath
}

// Lost is closed when this daemon's containerd has ended, and with it every sandbox. Another Ensure gives a new one.
func (d *Daemon) Lost() <-chan struct{} { return d.lost }

// Close ends this use of the daemon. The last user's Close lets its idle time begin.
func (d *Daemon) Close() {
	d.closed.Do(func() {
		d.proc.close()
		<-d.ended
		if d.user != nil {
			d.user.close(d.layout)
			return
		}
		// Attached: nobody else takes the groups away once they are empty.
		g := host.OpenGroup(d.record.Cgroup, d.record.HostPath)
		if names, err := g.Children(); err == nil && len(names) == 0 {
			_ = g.Remove() // another user may just be making one
		}
	})
}

// find is called with the start lock held: nobody else starts a keeper, and a keeper does not stop for want of users.
func find(ctx context.Context, c Config, l layout) (*process, record, error) {
	if p, r, ok := l.ready(ctx); ok {
		wakeKeeper(c, r)
		return p, r, nil
	}
	held, err := keeperRuns(l)
	if err != nil {
		return nil, record{}, err
	}
	if held {
		p, r, err := awaitKeeper(ctx, l, nil)
		if !errors.Is(err, errKeeperHangs) && !errors.Is(err, errKeeperEnded) {
			return p, r, err
		}
		c.Log.Warn().Err(err).Msg("the daemon's keeper is replaced")
		if err := killKeeper(ctx, l); err != nil {
			return nil, r, err
		}
	}
	// What an earlier keeper left is not to be taken for the new one's.
	if err := os.Remove(l.path("keeper.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, record{}, err
	}
	started, err := startKeeper(ctx, c, l)
	if err != nil {
		return nil, record{}, err
	}
	return awaitKeeper(ctx, l, started)
}

// ready finds a daemon that serves, and what its keeper says of it. One that answers while its keeper still clears up after
// the one before is not ready: nothing is known of it yet.
func (l layout) ready(ctx context.Context) (*process, record, bool) {
	r, err := l.readRecord()
	if err != nil || r.Phase != phaseReady {
		return nil, r, false
	}
	p, err := probe(ctx, l.socket(), probePatience)
	return p, r, err == nil
}

var (
	errKeeperHangs = errors.New("the daemon's keeper does not get containerd to serve")
	errKeeperEnded = errors.New("the daemon's keeper has ended")
)

// longer is the next wait of a poll.
func longer(wait time.Duration) time.Duration { return min(wait*3/2, longestPoll) }

// keeperRuns tells whether a keeper holds its lock.
func keeperRuns(l layout) (bool, error) {
	held, err := isLocked(l.path("keeper.lock"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return held, err
}

// wakeKeeper lets a keeper go on that somebody has stopped: nothing that dies would be noticed, and nothing swept.
func wakeKeeper(c Config, r record) {
	owner, err := host.ParseOwner(r.Keeper)
	if err != nil || !owner.Alive() || !host.Stopped(owner.PID) {
		return
	}
	if p, err := openProcess(owner.PID); err == nil {
		defer p.close()
		if owner.Alive() && unix.PidfdSendSignal(int(p.fd.Fd()), unix.SIGCONT, nil, 0) == nil {
			c.Log.Warn().Int("pid", owner.PID).Msg("the daemon's keeper was stopped, and goes on")
		}
	}
}

// keeperStopped tells whether the keeper was stopped by a signal, and so cannot do anything.
func keeperStopped(l layout) bool {
	r, err := l.readRecord()
	if err != nil {
		return false
	}
	owner, err := host.ParseOwner(r.Keeper)
	if err != nil || !owner.Alive() {
		return false
	}
	return host.Stopped(owner.PID)
}

// awaitKeeper waits until the keeper's daemon serves. started is closed when a keeper that was just started has ended;
// it is nil for one that was found.
func awaitKeeper(ctx context.Context, l layout, started *launch) (*process, record, error) {
	began := time.Now()
	patience := time.NewTimer(keeperPatience)
	defer patience.Stop()
	seen := started == nil // whether this keeper is known to have taken its lock
	for wait := shortestPoll; ; wait = longer(wait) {
		if p, r, ok := l.ready(ctx); ok {
			return p, r, nil
		}
		runs, err := keeperRuns(l)
		if err != nil {
			return nil, record{}, err
		}
		seen = seen || runs
		if runs && time.Since(began) > probePatience && keeperStopped(l) {
			return nil, record{}, fmt.Errorf("%w: %w: it is stopped", runtime.ErrUnavailable, errKeeperHangs)
		}
		if !runs && (seen || started.hasEnded()) {
			return nil, record{}, keeperError(l, started)
		}
		select {
		case <-time.After(wait):
		case <-patience.C:
			return nil, record{}, fmt.Errorf("%w: %w after %v", runtime.ErrUnavailable, errKeeperHangs, keeperPatience)
		case <-ctx.Done():
			return nil, record{}, fmt.Errorf("%w: it has not started yet: %w", runtime.ErrUnavailable, ctx.Err())
		}
	}
}

// keeperError is why a keeper ended, in its own words where it left any.
func keeperError(l layout, started *launch) error {
	r, err := l.readRecord()
	if err == nil && r.Phase == phaseFailed && started != nil {
		kind := runtime.ErrUnavailable
		if r.Hint != "" {
			kind = runtime.ErrUnsupported
		}
		return runtime.WithHint(fmt.Errorf("%w: %s", kind, r.Error), hintOr(r.Hint, "see "+l.path("log", "keeper.log")+", or run thawpool doctor"))
	}
	if started != nil {
		return runtime.WithHint(fmt.Errorf("%w: %w: %s", runtime.ErrUnavailable, errKeeperEnded, started.lastWords()),
			"see "+l.path("log", "keeper.log")+", or run thawpool doctor")
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnavailable, errKeeperEnded)
}

func hintOr(hint, other string) string {
	if hint != "" {
		return hint
	}
	return other
}

// killKeeper ends a keeper that hangs; all that it holds ends with it or is cleared up by the next one.
func killKeeper(ctx context.Context, l layout) error {
	r, err := l.readRecord()
	if err != nil {
		return fmt.Errorf("%w: cannot tell which process hangs: %w", runtime.ErrUnavailable, err)
	}
	owner, err := host.ParseOwner(r.Keeper)
	if err != nil {
		return fmt.Errorf("%w: cannot tell which process hangs: %w", runtime.ErrUnavailable, err)
	}
	if p, err := openProcess(owner.PID); err == nil {
		if owner.Alive() {
			err = p.kill()
		}
		p.close()
		if err != nil {
			return fmt.Errorf("%w: end the hanging keeper: %w", runtime.ErrUnavailable, err)
		}
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		if runs, err := keeperRuns(l); err != nil || !runs {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: the hanging keeper does not end: %w", runtime.ErrUnavailable, ctx.Err())
		}
	}
}
