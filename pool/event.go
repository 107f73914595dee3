package pool

import "time"

// Slot names one sandbox for its whole life. Slots are handed out by the Pool and never used again.
type Slot uint64

// Waiter names one call that wants a sandbox. Its owner never uses it again.
type Waiter uint64

// Event is something that happened. An event about a slot or waiter that the Pool does not know, or not in that state,
// changes nothing: late and double news are harmless.
type Event interface{ event() }

type (
	// BootDone says that the slot's sandbox is frozen and ready.
	BootDone struct{ Slot Slot }
	// BootFailed says that the slot's boot ended without a sandbox and left nothing behind. Final means that a retry
	// will not help by itself (the host or the image is unfit), so nobody is kept waiting for one.
	BootFailed struct {
		Slot  Slot
		Cause error
		Final bool
	}
	// LeaseWanted says that a call wants a sandbox.
	LeaseWanted struct{ Waiter Waiter }
	// LeaseCancelled says that the call no longer wants one. A slot that was already handed to it must be Released.
	LeaseCancelled struct{ Waiter Waiter }
	// HandFailed says that the leased slot was dead before it ran anything. Its waiter, if given again here, goes back to
	// the head of the queue; a zero Waiter does not.
	HandFailed struct {
		Slot   Slot
		Waiter Waiter
		Cause  error
	}
	// Released says that the leased slot has served and is to be destroyed.
	Released struct{ Slot Slot }
	// Lost says that the ready slot's sandbox died while it was frozen. It is still to be destroyed.
	Lost struct {
		Slot  Slot
		Cause error
	}
	// Destroyed says that nothing is left of the slot.
	Destroyed struct{ Slot Slot }
	// Tick says that the time of a Timer has come. At any other time it is harmless.
	Tick struct{}
	// Resize changes Size (between 0 and Max) and ends Auto.
	Resize struct{ Size int }
	// Drain ends the pool: waiters are rejected, nothing is booted any more, everything is destroyed once it can be.
	Drain struct{}
)

func (BootDone) event()       {}
func (BootFailed) event()     {}
func (LeaseWanted) event()    {}
func (LeaseCancelled) event() {}
func (HandFailed) event()     {}
func (Released) event()       {}
func (Lost) event()           {}
func (Destroyed) event()      {}
func (Tick) event()           {}
func (Resize) event()         {}
func (Drain) event()          {}

// How says how a call came to its sandbox.
type How string

// The ways to a sandbox.
const (
	Hit  How = "hit"  // one was ready when the call came
	Wait How = "wait" // it waited for one of the refill, or for its turn
	Cold How = "cold" // it waited for a boot that was started for it
)

// Reason says why a call got no sandbox.
type Reason string

// The reasons of a Reject.
const (
	ReasonFull    Reason = "queue full"     // Queue calls wait already
	ReasonLate    Reason = "queue wait"     // QueueWait passed
	ReasonEmpty   Reason = "pool empty"     // none ready, and Empty is refuse
	ReasonBoots   Reason = "boots failing"  // sandboxes cannot be booted; Cause says why
	ReasonClosing Reason = "shutting down"  // the pool drains
	ReasonDying   Reason = "sandboxes lost" // one sandbox after the other died before it ran the call
)

// Action is something the driver must do, in the order given.
type Action interface{ action() }

type (
	// Boot asks to start booting this new slot, and then to tell BootDone or BootFailed.
	Boot struct{ Slot Slot }
	// Hand asks to give the slot to the waiter, and then to tell Released or HandFailed.
	Hand struct {
		Slot   Slot
		Waiter Waiter
		How    How
		Waited time.Duration
	}
	// Reject asks to tell the waiter that it gets none.
	Reject struct {
		Waiter Waiter
		Reason Reason
		Cause  error         // the last failure of a boot, where boots fail; else nil
		Retry  time.Duration // with ReasonBoots: until the next boot is tried
		Waited time.Duration
	}
	// Destroy asks to remove the slot's sandbox, however long that takes, and then to tell Destroyed.
	Destroy struct{ Slot Slot }
	// Timer asks for a Tick at that time. It replaces an earlier Timer.
	Timer struct{ At time.Time }
)

func (Boot) action()    {}
func (Hand) action()    {}
func (Reject) action()  {}
func (Destroy) action() {}
func (Timer) action()   {}
