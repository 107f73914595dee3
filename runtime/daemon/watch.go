package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/gofrs/flock"
	"google.golang.org/grpc"

	"github.com/thawpool/thawpool/runtime/host"
)

// watch is a keeper's look after one daemon. Everything in it belongs to the keeper's goroutine; questions that take time
// are asked beside it, and their answers come by channels.
type watch struct {
	k   *keeper
	b   *box
	ctx context.Context // of the questions; ends with the watch

	conn              *grpc.ClientConn // one for all questions: what asks every second should cost little
	suspects          suspects
	look              bool // at the sockets
	health            chan error
	asking            bool
	asked             time.Time
	strikes           int       // questions after containerd's health without a good answer, in a row
	stopped           time.Time // since when containerd is seen stopped; zero when it is not
	swept             chan error
	sweeping, due     bool
	failed            bool      // the last sweep
	lastSweep, unused time.Time // unused: since when there is no user
}

// watch returns why the daemon must end. When that is for want of users, no process can become one until release is
// called.
func (k *keeper) watch(ctx context.Context, b *box) (why reason, release func()) {
	release = func() {}
	questions, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := dial(k.layout.socket())
	if err != nil {
		k.log.Error().Err(err).Msg("containerd cannot be asked for its health")
		return hung, release
	}
	defer func() { _ = conn.Close() }()
	now := time.Now()
	w := &watch{
		k: k, b: b, ctx: questions, conn: conn, suspects: suspects{}, lastSweep: now, unused: now,
		health: make(chan error, 1), swept: make(chan error, 1), // an answer after the end waits for nobody
	}
	lost := b.lost()
	tick := time.NewTicker(userEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return stopped, release
		case <-lost:
			return died, release
		case err := <-w.health:
			if w.hangs(err) {
				return hung, release
			}
		case err := <-w.swept:
			w.look = true
			if w.sweeping, w.failed = false, err != nil; err != nil {
				k.log.Warn().Err(err).Msg("what dead users left stays for now")
			}
		case now := <-tick.C:
			w.askHealth(now)
			w.lookAtSockets()
			if w.isStopped() {
				return hung, release
			}
			if _, err := os.Lstat(k.layout.path("users")); errors.Is(err, os.ErrNotExist) {
				return removed, release
			}
			if !w.lookAtUsers(now) {
				continue
			}
			if release, err := k.shutOut(); err == nil {
				return unused, release
			}
		}
	}
}

// askHealth asks containerd for its health now and then.
func (w *watch) askHealth(now time.Time) {
	if w.asking || now.Sub(w.asked) < healthEvery {
		return
	}
	w.asking, w.asked = true, now
	go func() {
		ctx, cancel := context.WithTimeout(w.ctx, healthPatience)
		defer cancel()
		w.health <- serving(ctx, w.conn)
	}()
}

// lookAtSockets removes those that nobody listens on, after each sweep, which may have ended who did. Each living one answers
// the look, so it is not done all the time.
func (w *watch) lookAtSockets() {
	if w.look || len(w.suspects) > 0 {
		w.look = false
		w.suspects.sweep(w.k.layout.path("run", "s"), w.k.layout.path(StatusDir))
	}
}

// hangs takes an answer, and tells whether that was one failure too many.
func (w *watch) hangs(err error) bool {
	w.asking = false
	if err == nil {
		w.strikes = 0
		return false
	}
	if w.strikes++; w.strikes < healthStrikes {
		return false
	}
	w.k.log.Error().Err(err).Msg("containerd hangs")
	return true
}

// isStopped tells whether containerd gave no answer and was stopped by a signal for a while: then it is not waited for.
func (w *watch) isStopped() bool {
	switch now := time.Now(); {
	case w.strikes == 0 || !host.Stopped(w.b.proc.pid):
		w.stopped = time.Time{}
		return false
	case w.stopped.IsZero(): // it may just be going on with all others
		w.stopped = now
		return false
	default:
		return now.Sub(w.stopped) >= userEvery/2
	}
}

// lookAtUsers begins a sweep when one is due, and tells whether the daemon was unused for long enough to end.
func (w *watch) lookAtUsers(now time.Time) (idle bool) {
	living, dead, err := w.k.layout.users()
	if err != nil {
		w.k.log.Warn().Err(err).Msg("users are not known")
		return false
	}
	w.due = w.due || len(dead) > 0 || now.Sub(w.lastSweep) >= sweepEvery ||
		w.failed && now.Sub(w.lastSweep) >= sweepAgain
	if w.due && !w.sweeping {
		w.due, w.sweeping, w.lastSweep = false, true, now
		go func() { w.swept <- w.k.sweep(w.ctx, w.b, false, living) }()
	}
	if len(living) > 0 {
		w.unused = now
	}
	return now.Sub(w.unused) >= w.k.cfg.Idle
}

// errInUse says that there is a user after all.
var errInUse = errors.New("the daemon is in use")

// shutOut takes the lock that new users need, if there is none now.
func (k *keeper) shutOut() (release func(), err error) {
	start := flock.New(k.layout.path("start.lock"))
	got, err := start.TryLock()
	if err != nil {
		return nil, err
	}
	if !got {
		return nil, errInUse
	}
	living, _, err := k.layout.users()
	if err == nil && len(living) > 0 {
		err = errInUse
	}
	if err != nil {
		return nil, errors.Join(err, start.Close())
	}
	// The keeper's own lock must be free when the next user looks for a keeper, so it goes first.
	return func() { _ = k.lock.Close(); _ = start.Close() }, nil
}
