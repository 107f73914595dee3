package observe

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/catalog/text"
	"github.com/thawpool/thawpool/pool"
)

// The bounds on what is kept of one call.
const (
	innerKept = 200      // inner calls, as a receipt has them
	tailBytes = 2 << 10  // of each of stdout and stderr
	codeBytes = 16 << 10 // of the source, where it is kept at all
	nameBytes = 128      // of a tool's name and of an error's type
)

// The states of a call.
const (
	StateQueued  = "queued"
	StateThawing = "thawing"
	StateRunning = "running"
	StateDone    = "done"
)

// Call is one call as operators see it. Times are milliseconds with a fraction.
type Call struct {
	ID        string        `json:"id"`
	Trace     string        `json:"trace,omitempty"`
	Profile   string        `json:"profile"`
	State     string        `json:"state"`
	Began     time.Time     `json:"began"`
	TookMS    float64       `json:"tookMs"` // so far, for one that goes on
	Sandbox   string        `json:"sandbox,omitempty"`
	Pool      string        `json:"pool,omitempty"` // hit, wait or cold
	Status    actors.Status `json:"status,omitempty"`
	Error     string        `json:"error,omitempty"` // the type alone: messages may hold what the code worked on
	ExitCode  *int          `json:"exitCode,omitempty"`
	QueueMS   float64       `json:"queueMs"`
	ThawMS    float64       `json:"thawMs"`
	RunMS     float64       `json:"runMs"`
	CPUMS     float64       `json:"cpuMs"`
	PeakBytes int64         `json:"peakMemoryBytes"`
	Inner     []Inner       `json:"inner,omitempty"`
	InnerAll  int           `json:"innerCount"` // with those that are not shown
	Stdout    string        `json:"stdout,omitempty"`
	Stderr    string        `json:"stderr,omitempty"`
	Code      string        `json:"code,omitempty"`
}

// Inner is one call that code made through the host.
type Inner struct {
	Server   string  `json:"server,omitempty"`
	Tool     string  `json:"tool"`
	StartMS  float64 `json:"startMs"` // from the call's begin
	MS       float64 `json:"ms"`
	BytesIn  int     `json:"bytesIn"`
	BytesOut int     `json:"bytesOut"`
	Outcome  string  `json:"outcome"` // "" while it goes on
}

// call follows one call that goes on.
type call struct {
	r   *Recorder
	end context.CancelCauseFunc

	mu  sync.Mutex // guards what follows
	pub Call
}

var _ actors.Follower = (*call)(nil)

// Leased implements actors.Follower.
func (c *call) Leased(sandbox string, how pool.How) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pub.State, c.pub.Sandbox, c.pub.Pool = StateThawing, sandbox, string(how)
}

// Thawed implements actors.Follower.
func (c *call) Thawed(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pub.State = StateRunning
}

// Inner implements actors.Follower.
func (c *call) Inner(ctx context.Context, verb string, args json.RawMessage) (context.Context, func(actors.InnerCall)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := len(c.pub.Inner)
	c.pub.InnerAll++
	if at < innerKept {
		c.pub.Inner = append(c.pub.Inner, Inner{Tool: clip(verb, nameBytes), StartMS: since(c.pub.Began), BytesIn: len(args)})
	}
	return ctx, func(done actors.InnerCall) { c.innerDone(at, done) }
}

func (c *call) innerDone(at int, done actors.InnerCall) {
	c.r.countInner(done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if at >= len(c.pub.Inner) || c.pub.State == StateDone {
		return
	}
	in := &c.pub.Inner[at]
	in.Server, in.Tool = clip(done.Server, nameBytes), clip(done.Tool, nameBytes)
	in.MS, in.BytesIn, in.BytesOut, in.Outcome = done.MS, done.BytesIn, done.BytesOut, done.Outcome
}

// snapshot is the call now; the caller owns it.
func (c *call) snapshot() Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.pub
	s.Inner = slices.Clone(s.Inner)
	if s.State != StateDone {
		s.TookMS = since(s.Began)
	}
	return s
}

// finish takes the answer in, and gives what is kept of the call for good.
func (c *call) finish(res *actors.Result) Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, r := &c.pub, res.Receipt
	p.State, p.TookMS, p.Status, p.ExitCode = StateDone, since(p.Began), res.Status, res.ExitCode
	p.Pool, p.QueueMS, p.ThawMS, p.RunMS, p.CPUMS, p.PeakBytes = r.Pool, r.QueueMS, r.ThawMS, r.RunMS, r.CPUMS, r.PeakBytes
	p.InnerAll = max(p.InnerAll, r.CallCount)
	if r.Sandbox != "" {
		p.Sandbox = r.Sandbox
	}
	if res.Error != nil {
		p.Error = clip(res.Error.Type, nameBytes)
	}
	p.Stdout, p.Stderr = tail(res.Stdout), tail(res.Stderr)
	for i := range p.Inner {
		if p.Inner[i].Outcome == "" {
			p.Inner[i].Outcome, p.Inner[i].MS = "cancelled", since(p.Began)-p.Inner[i].StartMS
		}
	}
	return *p
}

func since(t time.Time) float64 { return float64(time.Since(t).Microseconds()) / 1000 }

// tail is the end of s, in memory of its own so that the whole is not kept with it.
func tail(s string) string {
	if len(s) > tailBytes {
		s = "…" + strings.ToValidUTF8(s[len(s)-tailBytes:], "")
	}
	return strings.Clone(s)
}

// clip is the begin of s, in memory of its own.
func clip(s string, most int) string {
	return strings.Clone(text.Head(s, most))
}
