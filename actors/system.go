package actors

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/pool"
)

// cancelWait is how long Run waits for the answer of a call that was cancelled before it answers itself: it must come back
// at once whatever the rest does.
const cancelWait = time.Second

// System runs calls. It is safe for concurrent use.
type System struct {
	cfg      Config
	terms    terms
	log      zerolog.Logger
	profiles map[string]*profile
	ledger   *ledger
	out      outside
	tasks    sync.WaitGroup // what out counts

	supervisor, watcher address
	stopping            atomic.Bool
	dead                chan struct{} // closed when the supervisor has ended
	heart               heart         // the supervisor's
	quit                chan struct{} // ends watchHearts
	closing             atomic.Bool
	closed              chan struct{}
	closeErr            error
}

// Start checks cfg and starts filling the pools. The System must be closed.
func Start(cfg Config) (*System, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &System{
		cfg: cfg, terms: terms{outputMax: cfg.OutputMax, maxTimeout: cfg.MaxTimeout}, log: cfg.Log,
		profiles: map[string]*profile{}, ledger: newLedger(), dead: make(chan struct{}), closed: make(chan struct{}),
		quit: make(chan struct{}),
	}
	salt := make([]byte, 8)
	_, _ = rand.Read(salt) // crypto/rand never fails: it ends the process instead
	for i, name := range slices.Sorted(maps.Keys(cfg.Profiles)) {
		p := cfg.Profiles[name]
		s.profiles[name] = &profile{
			Limits: p.Limits, rt: p.Runtime, cfg: p.Pool, reg: newRegistry(),
			name: name, obs: cfg.Observer, log: cfg.Log.With().Str(keyProfile, name).Logger(), tag: fmt.Sprintf("tp-%s-%d", hex.EncodeToString(salt), i),
		}
	}
	s.start()
	return s, nil
}

func (s *System) start() {
	// What protoactor itself has to say below a warning is of no use to an operator; dead letters, for one, are how news
	// for a call that has ended ends.
	quiet := s.log.Level(max(s.log.GetLevel(), zerolog.WarnLevel))
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zerolog.NewSlogHandler(quiet))
	}))
	s.out = outside{root: sys.Root, wg: &s.tasks, crew: newCrew()}
	guard := &guardian{failed: func(reason any, stopping bool) {
		observed(s.cfg.Observer, ActorRestarted{Part: "supervisor"})
		s.log.Error().Str(keyEvent, "supervisor failed").Bool("given_up", stopping).Send()
		if err, ok := reason.(error); ok {
			logBug(s.log, err)
		}
	}}
	s.supervisor = sys.Root.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor { return &supervisor{sys: s} },
		actor.WithGuardian(guard), actor.WithDispatcher(s.out.crew)), "supervisor-")
	s.watcher = sys.Root.SpawnPrefix(actor.PropsFromProducer(func() actor.Actor {
		return &watcher{who: s.supervisor, ended: s.onDead}
	}), "watcher-")
	s.tasks.Go(s.watchHearts)
}

// onDead is called when the supervisor has ended: by Close, or because it failed too often. In the second case nobody else
// is left to answer the calls.
func (s *System) onDead() {
	if !s.stopping.Load() {
		s.log.Error().Str(keyEvent, "supervisor stopped").Err(errGone).Send()
	}
	s.ledger.close()
	close(s.dead)
}

// Dead is closed when the System can run no calls any more: after Close, or when it has failed beyond repair, in which case
// Close still destroys what is left.
func (s *System) Dead() <-chan struct{} { return s.dead }

// Run runs one call and returns its answer, whatever happens. When ctx ends the call ends at once as cancelled, and its
// sandbox is killed.
func (s *System) Run(ctx context.Context, req Request) Result {
	if req.Queued.IsZero() {
		req.Queued = time.Now()
	}
	c, refusal := s.admit(req)
	if refusal == nil {
		defer s.ledger.remove(c)
		refusal = s.openBridge(ctx, c)
	}
	if refusal != nil {
		c.finish(*refusal)
		return <-c.reply
	}
	s.out.root.Send(s.supervisor, runCall{call: c})
	return s.wait(ctx, c)
}

// admit makes a call of a request, or says what is wrong with it.
func (s *System) admit(req Request) (*call, *Result) {
	if req.Profile == "" {
		req.Profile = s.cfg.DefaultProfile
	}
	c := &call{req: req, timeout: req.Timeout, reply: make(chan Result, 1)}
	fields := s.log.With().Str(keyRequest, req.ID)
	if req.Trace != "" {
		fields = fields.Str(keyTrace, req.Trace)
	}
	c.log = fields.Logger()
	if c.timeout == 0 {
		c.timeout = s.cfg.DefaultTimeout
	}
	var no Result
	switch {
	case s.profiles[req.Profile] == nil:
		no = rejected("there is no profile %q; there are: %s", req.Profile, strings.Join(slices.Sorted(maps.Keys(s.profiles)), ", "))
	case c.timeout < 0 || c.timeout > s.cfg.MaxTimeout:
		no = rejected("timeout must be greater than 0 and at most %s (--max-timeout), not %s", seconds(s.cfg.MaxTimeout), seconds(c.timeout))
	case len(req.Code) > CodeMax:
		no = rejected("the code has %d bytes; at most %d can be run", len(req.Code), CodeMax)
	default:
		err := s.ledger.add(c)
		if err == nil {
			return c, nil
		}
		no = rejected("%v", err)
		if isClosed(s.dead) && !s.stopping.Load() {
			no = rejected("%v", errGone)
		}
	}
	return c, &no
}

// openBridge begins the call's inner calls. An error of the bridge is for the model: a server's name that is wrong, say.
func (s *System) openBridge(ctx context.Context, c *call) (no *Result) {
	if s.cfg.Bridge == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err := bug(r)
			logBug(c.log, err)
			res := ended(err)
			no = &res
		}
	}()
	run, err := s.cfg.Bridge.Open(ctx, c.req)
	if err == nil {
		c.bridge = run
		return nil
	}
	res := rejected("%v", err)
	if fault := faultOf(err); fault.Type != "" {
		res.Error.Type = fault.Type
	}
	if ctx.Err() != nil {
		res = ended(cancelled(context.Cause(ctx)))
	}
	return &res
}

// wait waits for the answer, and sees to it that there is one.
func (s *System) wait(ctx context.Context, c *call) Result {
	overdue := time.NewTimer(s.latest(c))
	defer overdue.Stop()
	select {
	case r := <-c.reply:
		return r
	case <-ctx.Done():
		cause := cancelled(context.Cause(ctx))
		s.out.root.Send(s.supervisor, cancelCall{call: c, cause: cause})
		return s.give(c, cause)
	case <-overdue.C:
		c.log.Error().Str(keyEvent, "no answer").Send()
		s.out.root.Send(s.supervisor, cancelCall{call: c, cause: errStopped})
		return s.give(c, errStopped)
	case <-s.dead:
		return s.give(c, &stop{StatusKilled, typeInternal, errGone.Error()})
	}
}

// give gives the answer that comes soon, or this one.
func (s *System) give(c *call, cause *stop) Result {
	soon := time.NewTimer(cancelWait)
	defer soon.Stop()
	select {
	case r := <-c.reply:
		return r
	case <-soon.C:
		c.finish(ended(cause))
		return <-c.reply
	}
}

// latest is when a call must have its answer if everything works; only a mistake in the program makes it wait longer.
func (s *System) latest(c *call) time.Duration {
	q := s.profiles[c.req.Profile].cfg.QueueWait
	return q + c.timeout + time.Minute
}

// Stats tells how the pools are. It never waits.
func (s *System) Stats() Stats {
	st := Stats{Profiles: map[string]ProfileStats{}, Hanging: s.hanging()}
	for name, p := range s.profiles {
		st.Profiles[name] = ProfileStats{Stats: p.reg.snapshot(), BootTimes: p.times.list()}
	}
	return st
}

// Resize changes how many sandboxes a profile's pool keeps ready; it ends the pool's automatic size.
func (s *System) Resize(profile string, size int) error {
	p := s.profiles[profile]
	if p == nil {
		return fmt.Errorf("there is no profile %q", profile)
	}
	if size < 0 || size > p.cfg.Max {
		return &pool.FieldError{Field: "Size", Value: size, Err: fmt.Errorf("must be from 0 to Max (%d)", p.cfg.Max)}
	}
	p.reg.resize(size)
	s.out.root.Send(s.supervisor, toPool{profile: profile, message: resize{size: size}})
	return nil
}

// Drain ends one profile's pool for good: who waits is rejected, running calls go on, and every sandbox is destroyed once it
// can be. It returns when none is left, or when ctx ends.
func (s *System) Drain(ctx context.Context, profile string) error {
	p := s.profiles[profile]
	if p == nil {
		return fmt.Errorf("there is no profile %q", profile)
	}
	p.reg.drain()
	s.out.root.Send(s.supervisor, toPool{profile: profile, message: drain{}})
	select {
	case <-p.reg.empty:
		return nil
	case <-s.dead:
		return errors.Join(errGone, p.leftOver())
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.leftOver())
	}
}
