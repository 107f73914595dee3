package actors

import "github.com/thawpool/thawpool/pool"

// What a session's actor is told, besides a pool's leased and refused.
type (
	// cancel: the call is to end now, for this reason.
	cancel struct {
		late
		cause error
	}
	// boxDead: the sandbox was dead before it ran anything; result of a conversation.
	boxDead struct {
		late
		slot  pool.Slot
		cause error
	}
	// poolReplaced: the pool hung; what was sent to it may be lost.
	poolReplaced struct{ late }
	// settled: the conversation is over and nothing of it goes on; the call was answered long before.
	settled struct{ late }
	// broken: the conversation ended by a bug of ours.
	broken struct {
		late
		slot  pool.Slot
		cause error
	}
)
