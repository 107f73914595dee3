package actors

import (
	"time"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
)

// What a pool's actor is told. A slot names a sandbox for ever and is in one state at a time, so late or double news about
// one is recognised and dropped without a generation; a timer's news carries one.
type (
	// lease: the session's call wants a sandbox. It is answered with leased or refused.
	lease struct {
		late
		key     pool.Waiter
		request string // its id, for the log
		to      address
	}
	// forgo: the call wants no sandbox any more, whether it waits or holds one.
	forgo struct {
		late
		key pool.Waiter
	}
	// handFailed: the leased sandbox was dead; the call wants another one.
	handFailed struct {
		late
		slot  pool.Slot
		cause error
	}
	// release: the call is through with its sandbox. running tells that code may still run in it, so that its end must not
	// wait for that of others.
	release struct {
		late
		slot    pool.Slot
		running bool
	}
	// bootEnded: a boot has ended; the registry has its sandbox.
	bootEnded struct {
		late
		slot pool.Slot
		took time.Duration
		err  error
	}
	// died: a sandbox's first process has gone.
	died struct {
		late
		slot pool.Slot
	}
	// destroyed: an attempt to destroy a sandbox has ended.
	destroyed struct {
		late
		slot    pool.Slot
		gen     uint64
		request string // that it served; "" when it served none
		took    time.Duration
		err     error
	}
	// destroyAgain: the time of the next attempt has come.
	destroyAgain struct {
		late
		slot pool.Slot
		gen  uint64
	}
	// tick: the time that the policy asked for has come.
	tick struct {
		late
		gen uint64
	}
	// resize changes the number of sandboxes kept ready.
	resize struct {
		late
		size int
	}
	// drain: the registry drains; end everything.
	drain struct{ late }
)

// What a pool's actor tells a session.
type (
	// leased: the session's call has this sandbox.
	leased struct {
		late
		slot    pool.Slot
		sandbox runtime.Sandbox
		before  runtime.Usage
		how     pool.How
	}
	// refused: the call gets none.
	refused struct {
		late
		why pool.Reject
	}
)
