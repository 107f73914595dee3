package observe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors"
)

// Kept is how many calls are kept after their end.
const Kept = 200

// Runner runs calls.
type Runner interface {
	Run(ctx context.Context, req actors.Request) actors.Result
}

// ErrKilled is why a call's context ended that an operator has ended.
var ErrKilled = errors.New("an operator ended the call")

// Recorder stands before a Runner and notes what becomes of its calls, and is told of the rest as an actors.Observer. It is
// safe for concurrent use.
type Recorder struct {
	next     Runner
	profile  string // of calls that name none
	keepCode bool
	metrics  *Metrics

	mu      sync.Mutex // guards what follows
	open    map[*call]struct{}
	ring    []Call // the last calls that have ended
	at      int    // where the next one goes
	total   int64
	latency [latencyKept]float64 // ms of the last calls that had a sandbox
	served  int64
	servers map[string]*Server
	booted  map[string]bool // profiles that tried to boot, so that they are the configuration's
}

var (
	_ actors.Observer = (*Recorder)(nil)
	_ Runner          = (*Recorder)(nil)
)

// NewRecorder makes a Recorder before next. defaultProfile is what calls get that name none; only with keepCode their
// source is kept.
func NewRecorder(next Runner, m *Metrics, defaultProfile string, keepCode bool) *Recorder {
	return &Recorder{next: next, metrics: m, profile: defaultProfile, keepCode: keepCode,
		open: map[*call]struct{}{}, servers: map[string]*Server{}, booted: map[string]bool{defaultProfile: true}}
}

// Run implements Runner.
func (r *Recorder) Run(ctx context.Context, req actors.Request) actors.Result {
	if req.Queued.IsZero() {
		req.Queued = time.Now()
	}
	if req.Profile == "" {
		req.Profile = r.profile
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &call{r: r, end: end, pub: Call{ID: req.ID, Trace: req.Trace, Profile: req.Profile, State: StateQueued, Began: req.Queued}}
	if r.keepCode {
		c.pub.Code = clip(req.Code, codeBytes)
	}
	req.Follow = actors.Followers(req.Follow, c)
	r.mu.Lock()
	r.open[c] = struct{}{}
	r.mu.Unlock()
	r.metrics.inFlight.Inc()
	res := r.next.Run(ctx, req)
	r.metrics.inFlight.Dec()
	r.ended(c, &res)
	return res
}

// ended notes a call's answer.
func (r *Recorder) ended(c *call, res *actors.Result) {
	done := c.finish(res)
	r.count(&done)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
	r.total++
	if done.Sandbox != "" {
		r.latency[r.served%latencyKept] = done.TookMS
		r.served++
	}
	if len(r.ring) < Kept {
		r.ring = append(r.ring, done)
		return
	}
	r.ring[r.at] = done
	r.at = (r.at + 1) % Kept
}

// count puts a call into the metrics. A profile that was never booted may be an invented name.
func (r *Recorder) count(c *Call) {
	m, profile := r.metrics, c.Profile
	r.mu.Lock()
	if c.Sandbox == "" && !r.booted[profile] {
		profile = otherName
	}
	r.mu.Unlock()
	m.calls.WithLabelValues(profile, string(c.Status)).Inc()
	if c.Pool == "" {
		if c.Status == actors.StatusRejected {
			m.leases.WithLabelValues(profile, "refused").Inc()
		}
		return
	}
	m.leases.WithLabelValues(profile, c.Pool).Inc()
	m.queueWait.WithLabelValues(profile).Observe(c.QueueMS / 1000)
	m.thaw.WithLabelValues(profile).Observe(c.ThawMS / 1000)
	m.run.WithLabelValues(profile).Observe(c.RunMS / 1000)
	m.cpu.WithLabelValues(profile).Observe(c.CPUMS / 1000)
	m.memory.WithLabelValues(profile).Observe(float64(c.PeakBytes))
}

// InFlight lists the calls that have no answer yet, oldest first.
func (r *Recorder) InFlight() []Call {
	r.mu.Lock()
	open := make([]*call, 0, len(r.open))
	for c := range r.open {
		open = append(open, c)
	}
	r.mu.Unlock()
	all := make([]Call, len(open))
	for i, c := range open {
		all[i] = c.snapshot()
	}
	slices.SortFunc(all, func(a, b Call) int { return a.Began.Compare(b.Began) })
	return all
}

// Last lists the calls that have ended, at most n of them, the last one first.
func (r *Recorder) Last(n int) []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := append(append(make([]Call, 0, len(r.ring)), r.ring[r.at:]...), r.ring[:r.at]...)
	slices.Reverse(all)
	return all[:min(n, len(all))]
}

// Total is how many calls have ended.
func (r *Recorder) Total() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// Kill ends the call with that request id, and tells whether there was one.
func (r *Recorder) Kill(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		if c.pub.ID == id { // never changes
			c.end(ErrKilled)
			return true
		}
	}
	return false
}

// latencyKept is how many calls the percentiles of Latency are made of.
const latencyKept = 512

// Latency is the median and the 99th percentile of the last calls that had a sandbox, milliseconds; zero when there was
// none.
func (r *Recorder) Latency() (p50, p99 float64) {
	r.mu.Lock()
	all := slices.Clone(r.latency[:min(r.served, latencyKept)])
	r.mu.Unlock()
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[min(len(all)-1, len(all)*99/100)]
}

// Observe implements actors.Observer.
func (r *Recorder) Observe(e actors.Event) {
	m := r.metrics
	switch e := e.(type) {
	case actors.SandboxBooted:
		r.mu.Lock()
		r.booted[e.Profile] = true
		r.mu.Unlock()
		if e.Err != nil {
			m.bootFailures.WithLabelValues(e.Profile).Inc()
			return
		}
		m.boot.WithLabelValues(e.Profile).Observe(e.Took.Seconds())
	case actors.SandboxLost:
		m.lost.WithLabelValues(e.Profile).Inc()
	case actors.SandboxDestroyed:
		if e.Err != nil {
			m.destroyFailures.WithLabelValues(e.Profile).Inc()
			return
		}
		m.destroy.WithLabelValues(e.Profile).Observe(e.Took.Seconds())
	case actors.ActorRestarted:
		m.actorRestarts.WithLabelValues(e.Part).Inc()
	case actors.ActorHung:
		m.actorHangs.WithLabelValues(e.Part).Inc()
	case actors.ServerConnected:
		m.serverStarts.WithLabelValues(r.enter(e.Server)).Inc()
	case actors.ServerFailed:
		m.serverFailures.WithLabelValues(r.enter(e.Server)).Inc()
	}
}

// Servers lists what was asked of each server, by name.
func (r *Recorder) Servers() []Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Server, 0, len(r.servers))
	for _, s := range r.servers {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	return all
}
