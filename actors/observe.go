package actors

import (
	"context"
	"encoding/json"
	"time"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
)

// Observer is told what happens to sandboxes and servers. It is called from actors and from the goroutines beside them, so
// it must not block, and must be safe for concurrent use. A nil Observer costs nothing.
type Observer interface{ Observe(Event) }

// Event is one of the types below.
type Event interface{ event() }

// What an Observer is told.
type (
	// SandboxBooted says that a boot has ended; with Err there is no sandbox.
	SandboxBooted struct {
		Profile, Sandbox string
		Took             time.Duration
		Err              error
	}
	// SandboxLost says that one that was ready died, or was dead when a call was to have it.
	SandboxLost struct{ Profile, Sandbox string }
	// SandboxDestroyed says that an attempt to destroy one has ended; with Err it is tried again.
	SandboxDestroyed struct {
		Profile, Sandbox string
		Took             time.Duration
		Err              error
	}
	// ActorRestarted says that a part failed by a bug and was started anew: the supervisor, or a pool.
	ActorRestarted struct{ Part string }
	// ActorHung says that a part did not answer any more: a pool or a client, which were replaced, a session, whose call was
	// ended, or the supervisor.
	ActorHung struct{ Part string }
	// ServerConnected says that a connection to an upstream server was made.
	ServerConnected struct{ Server string }
	// ServerFailed says that one could not be made, or was lost.
	ServerFailed struct{ Server string }
)

func (SandboxBooted) event()    {}
func (SandboxLost) event()      {}
func (SandboxDestroyed) event() {}
func (ActorRestarted) event()   {}
func (ActorHung) event()        {}
func (ServerConnected) event()  {}
func (ServerFailed) event()     {}

// observed tells o, when there is one.
func observed(o Observer, e Event) {
	if o != nil {
		o.Observe(e)
	}
}

// Follower is told what becomes of one call. Its methods must not block. They are called from several goroutines, some of
// them maybe after the call was answered.
type Follower interface {
	// Leased tells that the call has a sandbox; again when the first one was dead.
	Leased(sandbox string, how pool.How)
	// Thawed tells that the sandbox runs now.
	Thawed(sandbox string)
	// Inner begins a call that the code makes. args must not be kept or changed. The context returned is given to the
	// Bridge; done, when it is not nil, is called once with what the receipt says of it.
	Inner(ctx context.Context, verb string, args json.RawMessage) (_ context.Context, done func(InnerCall))
}

// SandboxInfo is one sandbox as operators see it.
type SandboxInfo struct {
	Profile string
	ID      string
	State   string    // booting, ready, leased or destroying
	Since   time.Time // the boot's start while it boots, else when it became ready
	Request string    // of the call that has it; "" when none has
	Usage   runtime.Usage
	Counted bool // Usage is known
}

// stateNames are the states of a slot in words.
var stateNames = map[pool.State]string{
	pool.Booting: "booting", pool.Ready: "ready", pool.Leased: "leased", pool.Destroying: "destroying",
}

// Sandboxes lists every sandbox there is, in no order. It reads the kernel's counts of each, so it takes some time.
func (s *System) Sandboxes() []SandboxInfo {
	var all []SandboxInfo
	for name, p := range s.profiles {
		for _, b := range p.reg.all() {
			info := SandboxInfo{Profile: name, ID: b.id, State: stateNames[b.state], Since: b.since, Request: b.holder.request}
			if b.sandbox != nil {
				usage, err := b.sandbox.Usage()
				info.Usage, info.Counted = usage, err == nil
			}
			all = append(all, info)
		}
	}
	return all
}

// Followers makes one Follower of two, either of which may be nil.
func Followers(a, b Follower) Follower {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return followers{a, b}
}

type followers struct{ a, b Follower }

func (f followers) Leased(sandbox string, how pool.How) {
	f.a.Leased(sandbox, how)
	f.b.Leased(sandbox, how)
}

func (f followers) Thawed(sandbox string) {
	f.a.Thawed(sandbox)
	f.b.Thawed(sandbox)
}

func (f followers) Inner(ctx context.Context, verb string, args json.RawMessage) (context.Context, func(InnerCall)) {
	ctx, a := f.a.Inner(ctx, verb, args)
	ctx, b := f.b.Inner(ctx, verb, args)
	return ctx, func(c InnerCall) {
		if a != nil {
			a(c)
		}
		if b != nil {
			b(c)
		}
	}
}
