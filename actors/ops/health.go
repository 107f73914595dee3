package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors"
)

const (
	// watchEvery is how often health is looked at and a sample for the charts is taken.
	watchEvery = time.Second
	// stuckAfter is how long calls may wait for a sandbox with none of them getting one.
	stuckAfter = 10 * time.Second
	// probeMax ends a self-check that hangs.
	probeMax = 30 * time.Second
	// causeBytes bounds a cause in words.
	causeBytes = 1 << 10
	// turnsKept is how many changes of health are remembered.
	turnsKept = 20
)

// Health is whether sandboxes can be had, and if not, why.
type Health struct {
	Ready  bool      `json:"ready"`
	Causes []string  `json:"causes,omitempty"`
	Since  time.Time `json:"since"`
}

// Turn is one change of health.
type Turn struct {
	At     time.Time `json:"at"`
	Ready  bool      `json:"ready"`
	Causes []string  `json:"causes,omitempty"`
}

// health gathers what speaks against being ready.
type health struct {
	cfg *Config

	mu      sync.Mutex // guards what follows
	now     Health
	turns   []Turn
	lost    bool  // containerd has gone, and no sandbox was booted since
	probe   error // of the last self-check
	moved   map[string]movement
	probed  time.Time
	ended   int64 // calls that had ended when the last self-check was due
	probing sync.Mutex

	conditions []*condition
	news       chan struct{} // somebody should look now
}

// movement is when a pool's queue moved last.
type movement struct {
	served int64
	at     time.Time
}

func newHealth(c *Config) *health {
	h := &health{cfg: c, moved: map[string]movement{}, now: Health{Since: c.Started}, news: make(chan struct{}, 1)}
	for _, look := range c.Conditions {
		h.conditions = append(h.conditions, &condition{look: look})
	}
	return h
}

// soon has somebody look soon. Those who bring news must not wait for what is looked at, such as a disk.
func (h *health) soon() {
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// Observe implements actors.Observer: a sandbox that boots proves that the daemon is there.
func (h *health) Observe(e actors.Event) {
	b, ok := e.(actors.SandboxBooted)
	if !ok || b.Err != nil {
		return
	}
	h.mu.Lock()
	was := h.lost
	h.lost = false
	h.mu.Unlock()
	if was {
		h.soon()
	}
}

// daemonLost notes that containerd has gone.
func (h *health) daemonLost() {
	h.mu.Lock()
	h.lost = true
	h.mu.Unlock()
	h.soon()
}

// check looks at everything, and tells of a change.
func (h *health) check() Health {
	causes := h.causes(time.Now())
	h.mu.Lock()
	defer h.mu.Unlock()
	ready := len(causes) == 0
	first := len(h.turns) == 0
	if ready != h.now.Ready || first {
		h.now.Since = time.Now()
		if len(h.turns) >= turnsKept {
			h.turns = slices.Delete(h.turns, 0, 1)
		}
		h.turns = append(h.turns, Turn{At: h.now.Since, Ready: ready, Causes: causes})
		switch {
		case ready:
			h.cfg.Log.Info().Str("event", "ready").Send()
		case first:
			h.cfg.Log.Info().Str("event", "not ready").Strs("causes", causes).Send()
		default:
			h.cfg.Log.Warn().Str("event", "not ready").Strs("causes", causes).Send()
		}
	}
	h.now.Ready, h.now.Causes = ready, causes
	if h.cfg.Metrics != nil {
		h.cfg.Metrics.SetReady(ready)
	}
	return h.now
}

func (h *health) causes(now time.Time) (causes []string) {
	add := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		causes = append(causes, strings.ToValidUTF8(text[:min(len(text), causeBytes)], ""))
	}
	sys, err := h.cfg.System()
	if err != nil {
		add("sandboxes cannot be had: %v", err)
	}
	h.mu.Lock()
	lost, probe := h.lost, h.probe
	h.mu.Unlock()
	if lost {
		add("containerd was lost with its sandboxes and none has booted since")
	}
	if err == nil {
		stats := sys.Stats()
		for _, part := range stats.Hanging {
			add("%s hangs", part)
		}
		for name, p := range stats.Profiles {
			switch {
			case p.Draining:
				add("pool %s: it was drained and runs no more calls until thawpool is started anew", name)
			case p.BootError != nil:
				add("pool %s: boots fail: %v", name, p.BootError)
			case p.Size > 0 && p.BootTook == 0 && p.Ready+p.Leased == 0:
				add("pool %s: the first sandbox is still booting", name)
			}
			if d := h.stuck(name, p, now); d > stuckAfter {
				add("pool %s: %d calls wait for a sandbox and none has got one for %s", name, p.Waiting, d.Round(time.Second))
			}
		}
	}
	if h.cfg.Servers != nil {
		for _, s := range h.cfg.Servers.Status() {
			if s.State == actors.ClientHanging {
				add("the client of server %s hangs", s.Name)
			}
		}
	}
	if probe != nil {
		add("the self-check failed: %v", probe)
	}
	for _, c := range h.conditions {
		if err := c.now(); err != nil {
			add("%v", err)
		}
	}
	slices.Sort(causes)
	return causes
}

// stuck is how long a pool's queue has not moved.
func (h *health) stuck(name string, p actors.ProfileStats, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	served := p.Hits + p.Waits + p.Colds
	m := h.moved[name]
	if p.Waiting == 0 || served != m.served || m.at.IsZero() {
		h.moved[name] = movement{served: served, at: now}
		return 0
	}
	return now.Sub(m.at)
}

func (h *health) history() []Turn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.turns)
}

// probeIfIdle makes the self-check when it is due and no call has run since the last one was.
func (h *health) probeIfIdle(ctx context.Context, now time.Time) {
	if h.cfg.SelfCheck <= 0 || h.cfg.Probe == nil || !h.probing.TryLock() {
		return
	}
	defer h.probing.Unlock()
	h.mu.Lock()
	due := now.Sub(h.probed) >= h.cfg.SelfCheck
	failed := h.probe != nil
	h.mu.Unlock()
	if !due {
		return
	}
	busy := false
	if r := h.cfg.Recorder; r != nil {
		total := r.Total()
		busy = len(r.InFlight()) > 0 || total != h.ended && !failed
		h.ended = total
	}
	outcome := "skipped"
	var err error
	if !busy {
		ctx, end := context.WithTimeout(ctx, probeMax)
		err = h.cfg.Probe(ctx)
		end()
		outcome = "ok"
		if err != nil {
			outcome = "failed"
		}
	}
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return // by Close
	}
	if h.cfg.Metrics != nil {
		h.cfg.Metrics.SelfChecked(outcome)
	}
	h.mu.Lock()
	h.probed = time.Now()
	if !busy {
		h.probe = err
	}
	h.mu.Unlock()
}
