package pool

import (
	"strings"
	"testing"
	"time"
)

// TestDeadlinesAreMonotonic: what is waited for is measured by the clock that nobody can set, so a wall clock that jumps
// neither ends a wait nor prolongs one.
func TestDeadlinesAreMonotonic(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Size: 1, Max: 1, Refill: 1, MaxAge: time.Hour, Empty: EmptyWait, Queue: 1, QueueWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p.Handle(now, LeaseWanted{Waiter: 1})
	for slot := range p.slots {
		p.Handle(now, BootFailed{Slot: slot})
	}
	for what, at := range map[string]time.Time{
		"the end of a wait": p.waiters[0].deadline, "the next boot": p.trouble.until, "the timer": p.timer,
	} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is %v, by the wall clock", what, at)
		}
	}
}
