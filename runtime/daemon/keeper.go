package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/flock"
	"github.com/rs/zerolog"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

const (
	// healthEvery, healthPatience and healthStrikes: containerd is asked often, may take long once (a machine that is
	// short of processor or was suspended), and counts as hung after about ten seconds without an answer.
	healthEvery    = time.Second
	healthPatience = 3 * time.Second
	healthStrikes  = 3
	// lockPatience is how long a new keeper tries to get its lock.
	lockPatience = time.Second
	// userEvery is how soon the end of a user is noticed.
	userEvery = 500 * time.Millisecond
	// sweepEvery is how often everything is compared, beyond what dead users are known to have left. It is a few requests.
	sweepEvery = 10 * time.Second
	// sweepAgain is when a sweep that failed is tried again.
	sweepAgain = time.Second
	// settled is how long a daemon must have served for its end to be no sign of a store that it cannot work with.
	settled = 10 * time.Second
	// maxFailures is how many daemons in a row may fail to serve before the keeper gives up and says why.
	maxFailures = 4
	// maxYoung is how many in a row may end young before the store is taken for the cause. Somebody who kills them is no
	// reason to forget all images.
	maxYoung = 10
)

// trials are the daemons in a row that did not do.
type trials struct {
	failed int // did not come to serve
	young  int // served, and ended before they had settled
}

func (t *trials) note(served bool, lived time.Duration) {
	switch {
	case !served:
		t.failed++
	case lived < settled:
		t.failed, t.young = 0, t.young+1
	default:
		*t = trials{}
	}
}

// wipe tells whether to try without all that containerd has stored: it is not synced to disk, and after a power cut it may
// be damaged. Since it may as well not be, and have images that cannot be made again, it is set aside.
func (t *trials) wipe() bool {
	return t.failed == maxFailures-1 || t.young > 0 && t.young%maxYoung == 0
}

// keeper is the state of Keep. Everything in it but the tally belongs to the one goroutine that runs Keep.
type keeper struct {
	cfg    Config
	layout layout
	log    zerolog.Logger
	out    *lumberjack.Logger
	lock   *flock.Flock // keeper.lock, held for life
	self   host.Owner
	place  place
	tally  tally
}

// Keep runs the private daemon until ctx ends or nobody has used it for a while: it starts rootlesskit with containerd,
// replaces them when they die or hang, and removes what dead users have left. Only one Keep runs for a state directory;
// a second one returns an error at once. It returns nil when it has stopped what it ran.
func Keep(ctx context.Context, c Config) error {
	c, err := c.complete()
	if err != nil {
		return err
	}
	l, err := openLayout(c.StateDir)
	if err != nil {
		return err
	}
	k, err := newKeeper(c, l)
	if err != nil {
		return err
	}
	defer k.close()
	if err := k.run(ctx); err != nil {
		k.log.Error().Err(err).Msg("the daemon's keeper gives up")
		return errors.Join(err, k.fail(err))
	}
	return nil
}

func newKeeper(c Config, l layout) (*keeper, error) {
	self, err := host.Self()
	if err != nil {
		return nil, err
	}
	lock := flock.New(l.path("keeper.lock"))
	// Those who look whether a keeper runs hold the lock for a moment, so one try is not enough.
	ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, shortestPoll); err != nil {
		return nil, fmt.Errorf("another keeper runs in %s: %w", l.dir, err)
	}
	// One megabyte and one older file: enough to see why something failed, whatever containerd says.
	out := &lumberjack.Logger{Filename: l.path("log", "keeper.log"), MaxSize: 1, MaxBackups: 1}
	log := zerolog.New(out).With().Timestamp().Int("pid", self.PID).Logger()
	k := &keeper{cfg: c, layout: l, log: log, out: out, lock: lock, self: self}
	if err := (record{Keeper: self.String(), Phase: phaseStarting}).write(l); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	k.note(func(*Tally) {}) // so that nobody takes an earlier one's for it
	return k, nil
}

func (k *keeper) close() {
	_ = k.out.Close()
	_ = k.lock.Close() // unlocks; whoever waits for this keeper's end goes on
}

// fail leaves the reason for those who wait.
func (k *keeper) fail(err error) error {
	r := record{Keeper: k.self.String(), Phase: phaseFailed, Error: err.Error()}
	var hint *runtime.HintError
	if errors.As(err, &hint) {
		r.Error, r.Hint = hint.Err.Error(), hint.Hint
	}
	return r.write(k.layout)
}

// why a daemon ended.
type reason string

const (
	stopped reason = "asked to stop"
	unused  reason = "unused"
	removed reason = "its state directory was removed"
	died    reason = "containerd has ended"
	hung    reason = "containerd hangs"
	useless reason = "containerd does not do what it is asked"
)

// run keeps a daemon running, one after the other.
func (k *keeper) run(ctx context.Context) (err error) {
	if k.place, err = findPlace(k.layout); err != nil {
		return err
	}
	k.log.Info().Str("state", k.layout.dir).Str("group", k.place.hostPath).Msg("keeper starts")
	if err := clear(ctx, k.layout, k.place); err != nil {
		return fmt.Errorf("remove what an earlier daemon left: %w", err)
	}
	for t := (trials{}); ; {
		began, served := time.Now(), false
		if t.wipe() {
			k.log.Warn().Str("to", k.layout.path("root.damaged")).Msg("what containerd has stored is set aside, if nothing was before")
		}
		b, err := openBox(ctx, k.cfg, k.layout, k.place, k.out, t.wipe())
		if err == nil {
			var why reason
			why, err = k.serve(ctx, b)
			if served = why != useless; why == stopped || why == unused || why == removed {
				k.log.Info().Str("why", string(why)).Err(err).Msg("keeper ends")
				return err
			}
			err = errors.Join(errors.New(string(why)), err)
		}
		if ctx.Err() != nil {
			return nil
		}
		t.note(served, time.Since(began))
		k.log.Warn().Err(err).Int("failures", t.failed).Int("ended_young", t.young).Msg("daemon is replaced")
		k.note(func(t *Tally) { t.Replaced++ })
		if t.failed >= maxFailures {
			return err
		}
		if err := (record{Keeper: k.self.String(), Phase: phaseStarting}).write(k.layout); err != nil {
			return err
		}
	}
}

// serve watches over one daemon until it must end, and ends it.
func (k *keeper) serve(ctx context.Context, b *box) (reason, error) {
	r := record{
		Keeper: k.self.String(), Phase: phaseReady,
		Cgroup: k.place.version, HostPath: k.place.hostPath, SpecPath: k.place.specPath,
	}
	if err := errors.Join(k.sweep(ctx, b, true, nil), k.settle(ctx), r.write(k.layout)); err != nil {
		return useless, errors.Join(err, b.close(context.WithoutCancel(ctx)))
	}
	k.log.Info().Int("containerd", b.proc.pid).Msg("daemon serves")
	why, release := k.watch(ctx, b)
	err := b.close(context.WithoutCancel(ctx))
	release()
	return why, err
}
