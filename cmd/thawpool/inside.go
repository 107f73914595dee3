package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/audit"
	"github.com/thawpool/thawpool/actors/front"
	"github.com/thawpool/thawpool/actors/observe"
	"github.com/thawpool/thawpool/actors/ops"
	"github.com/thawpool/thawpool/actors/tracing"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/host"
)

// What a disk must have left for sandboxes and logs, below which the process is not ready.
const (
	freeBytes  = 64 << 20
	freeInodes = 1024
)

// inside is what operators see of this process. Without --listen it is only the socket for `thawpool status`, and nothing
// stands before the calls. Its methods work on nil, which commands other than serve have.
type inside struct {
	log      zerolog.Logger
	ops      *ops.Ops
	metrics  *observe.Metrics  // nil without --listen
	recorder *observe.Recorder // nil without --listen
	closers  []func() error
	wrap     []func(front.Runner) front.Runner // what stands before the runner, the outermost last
	source   atomic.Pointer[opener]            // what runs calls in the end; nil before start
}

// openInside makes what the configuration asks for. Nothing is served before start.
func (a *app) openInside() (*inside, error) {
	in := &inside{log: a.log}
	c := ops.Config{
		System: in.system, Servers: lateServers{a}, Version: versionText(), Started: time.Now(), Log: a.log,
		Conditions: []ops.Condition{func() error { return diskRoom(a.cfg.StateDir) }},
		Checks: func(context.Context) []ops.Check {
			return opsChecks(host.PreflightIn(unix.Geteuid(), a.cfg.BinDir, a.cfg.StateDir))
		},
		SelfCheck: a.cfg.Ops.SelfCheck, Probe: func(ctx context.Context) error { return probe(ctx, in) },
	}
	if a.cfg.Ops.Listen != "" {
		in.metrics = observe.NewMetrics(versionText())
		in.metrics.WatchPools(func() (actors.Stats, bool) {
			sys, err := in.system()
			if err != nil {
				return actors.Stats{}, false
			}
			return sys.Stats(), true
		})
		if a.cfg.ContainerdAddress == "" {
			in.metrics.WatchKeeper(func() (observe.Keeper, bool) { return keeperOf(a.cfg.StateDir) })
		}
		in.recorder = observe.NewRecorder(in, in.metrics, a.cfg.Profile, a.cfg.Ops.PageCode)
		c.Metrics, c.Recorder = in.metrics, in.recorder
	}
	if a.cfg.Ops.Audit != "" {
		log, err := a.openAudit(in)
		if err != nil {
			return nil, err
		}
		c.Conditions = append(c.Conditions, log.Problem)
	}
	if tracing.Wanted() {
		t, err := tracing.Open(context.Background(), versionText(), a.log)
		if err != nil {
			return nil, errors.Join(err, in.closeParts())
		}
		in.wrap = append(in.wrap, func(next front.Runner) front.Runner { return t.Before(next) })
		in.closers = append(in.closers, t.Close)
	}
	in.ops = ops.New(c)
	return in, nil
}

// keeperOf is what the private daemon's keeper has done.
func keeperOf(stateDir string) (observe.Keeper, bool) {
	t, err := daemon.ReadTally(stateDir)
	return observe.Keeper{Sweeps: t.Sweeps, SweepFailures: t.SweepFailures, Replaced: t.Replaced, Removed: t.Removed.Kinds()}, err == nil
}

// openAudit puts an audit log before the calls.
func (a *app) openAudit(in *inside) (*audit.Log, error) {
	c := audit.Config{File: a.cfg.Ops.Audit, Code: a.cfg.Ops.AuditCode, Required: a.cfg.Ops.AuditRequired, Log: a.log}
	if in.metrics != nil {
		c.Failed = in.metrics.AuditFailed
	}
	log, err := audit.Open(c)
	if err != nil {
		return nil, &FieldError{Field: "audit", Err: err}
	}
	a.log.Info().Str("file", log.File()).Msg("calls are written down")
	in.wrap = append(in.wrap, func(next front.Runner) front.Runner { return log.Before(next) })
	in.closers = append(in.closers, log.Close)
	return log, nil
}

// start serves operators, and gives the runner that calls are to go through.
func (in *inside) start(a *app, source *opener) (front.Runner, error) {
	in.source.Store(source)
	if err := in.ops.Publish(filepath.Join(a.cfg.StateDir, daemon.StatusDir)); err != nil {
		a.log.Warn().Err(err).Msg("thawpool status will not find this process")
	}
	var r front.Runner = source
	if in.recorder != nil {
		r = in.recorder
	}
	for _, w := range in.wrap {
		r = w(r)
	}
	if a.cfg.Ops.Listen == "" {
		return r, nil
	}
	l, err := a.cfg.Ops.listen()
	if err != nil {
		return nil, err
	}
	at, err := in.ops.Listen(l)
	if err != nil {
		return nil, err
	}
	in.ops.Watch()
	a.log.Info().Str("listen", at).Msg("operators are served")
	return r, nil
}

// Close ends it. What goes wrong then, such as traces that nobody takes, is for the log and not the process's fault.
func (in *inside) Close() {
	if in == nil {
		return
	}
	in.ops.Close()
	if err := in.closeParts(); err != nil {
		in.log.Warn().Err(err).Msg("not everything that watches calls has ended well")
	}
}

func (in *inside) closeParts() error {
	var errs []error
	for _, c := range in.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// observer is told by the system and the hub; nil where nobody looks.
func (in *inside) observer() actors.Observer {
	if in == nil || in.recorder == nil {
		return nil
	}
	return observers{in.recorder, in.ops}
}

// observers are told one after the other.
type observers []actors.Observer

// Observe implements actors.Observer.
func (all observers) Observe(e actors.Event) {
	for _, o := range all {
		o.Observe(e)
	}
}

// daemonLost notes that containerd has gone.
func (in *inside) daemonLost() {
	if in == nil || in.recorder == nil {
		return
	}
	in.metrics.DaemonLost()
	in.ops.DaemonLost()
}

// daemonConnected notes that there is a containerd.
func (in *inside) daemonConnected() {
	if in != nil && in.metrics != nil {
		in.metrics.DaemonConnected()
	}
}

// swept notes what a sweep removed.
func (in *inside) swept(f ctrd.Found) {
	if in != nil && in.metrics != nil {
		in.metrics.Swept(f.Kinds())
	}
}

// lateServers is the hub, which is made after what looks at it.
type lateServers struct{ a *app }

// Status implements ops.Servers.
func (l lateServers) Status() []actors.ClientStatus {
	if l.a.hub == nil {
		return nil
	}
	return l.a.hub.Status()
}

// Restart implements ops.Servers.
func (l lateServers) Restart(server string) error {
	if l.a.hub == nil {
		return errors.New("there are no servers")
	}
	return l.a.hub.Restart(server)
}

// Run implements front.Runner: it is where all that stands before calls ends.
func (in *inside) Run(ctx context.Context, req actors.Request) actors.Result {
	if source := in.source.Load(); source != nil {
		return source.Run(ctx, req)
	}
	return unavailable(req, errStarting)
}

// errStarting is why there are no sandboxes at first.
var errStarting = errors.New("they are still being brought up")

func (in *inside) system() (ops.System, error) {
	if source := in.source.Load(); source != nil {
		return source.system()
	}
	return nil, errStarting
}

// system is what was opened, or why nothing is there.
func (o *opener) system() (ops.System, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sys, ok := o.there.(ops.System); ok {
		return sys, nil
	}
	if o.err != nil {
		return nil, o.err
	}
	return nil, errStarting
}

// probe runs the smallest code through the whole path.
func probe(ctx context.Context, r front.Runner) error {
	res := r.Run(ctx, actors.Request{ID: "self-check", Code: "print(1)", Queued: time.Now(), Servers: []string{}})
	if res.Status == actors.StatusSuccess && res.Stdout == "1\n" {
		return nil
	}
	return fmt.Errorf("print(1) ended as %s: %s", res.Status, compactCause(res))
}

// diskRoom is an error while the disk of dir is nearly full.
func diskRoom(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < freeBytes {
		return fmt.Errorf("the disk of %s is full: %d MiB are left and %d are needed", dir, free>>20, freeBytes>>20)
	}
	if st.Files > 0 && st.Ffree < freeInodes {
		return fmt.Errorf("the disk of %s has no room for more files: %d are left", dir, st.Ffree)
	}
	return nil
}

// opsChecks are doctor's checks as the page shows them.
func opsChecks(checks []host.Check) []ops.Check {
	all := make([]ops.Check, len(checks))
	for i, c := range checks {
		all[i] = ops.Check{Title: c.Title, OK: c.OK, Fatal: c.Fatal, Detail: c.Detail, Fix: c.Fix}
		if !c.OK {
			all[i].Detail = c.Cause
		}
	}
	return all
}
