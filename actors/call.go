package actors

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/pool"
)

// call is one request from Run to its answer. Its fields never change after it was sent to the supervisor, but for the
// atomic ones.
type call struct {
	key     pool.Waiter // unique in its System
	req     Request
	timeout time.Duration
	log     zerolog.Logger
	bridge  BridgeRun   // nil when there is no Bridge
	reply   chan Result // holds the one answer

	answered atomic.Bool
	spawned  atomic.Bool // it has had a session
	heart    heart       // of its session
}

// finish answers the call and logs that it has ended, unless it was answered before.
func (c *call) finish(r Result) {
	if !c.answered.CompareAndSwap(false, true) {
		return
	}
	r.Receipt.RequestID = c.req.ID
	if r.Receipt.Sandbox == "" {
		r.Receipt.QueueMS = ms(time.Since(c.req.Queued))
	}
	c.reply <- r
	c.logDone(r)
}

// logDone writes the one line of a finished call.
func (c *call) logDone(r Result) {
	e := c.log.Info().Str(keyEvent, "done").Str(keyStatus, string(r.Status)).Float64(keyQueueMS, r.Receipt.QueueMS)
	if r.Receipt.Sandbox != "" {
		e = e.Str(keySandbox, r.Receipt.Sandbox).Str(keyPool, r.Receipt.Pool).Float64(keyThawMS, r.Receipt.ThawMS).
			Float64(keyRunMS, r.Receipt.RunMS).Float64(keyCPUMS, r.Receipt.CPUMS).Int64(keyPeak, r.Receipt.PeakBytes)
	}
	if r.Receipt.CallCount > 0 {
		e = e.Int(keyCalls, r.Receipt.CallCount)
	}
	e.Send()
}

// ledger is the calls that have no answer yet. It outlives every actor.
type ledger struct {
	mu     sync.Mutex
	last   pool.Waiter
	open   map[pool.Waiter]*call
	closed bool
	empty  chan struct{} // closed when it is closed and has no call left
}

var errClosing = errors.New("thawpool is shutting down")

func newLedger() *ledger {
	return &ledger{open: map[pool.Waiter]*call{}, empty: make(chan struct{})}
}

// add gives the call its key. It fails once the ledger is closed.
func (l *ledger) add(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosing
	}
	l.last++
	c.key = l.last
	l.open[c.key] = c
	return nil
}

func (l *ledger) remove(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c.key)
	l.settle()
}

// close lets no call in any more.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.settle()
}

func (l *ledger) settle() {
	if l.closed && len(l.open) == 0 && !isClosed(l.empty) {
		close(l.empty)
	}
}

// calls is every open call.
func (l *ledger) calls() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*call, 0, len(l.open))
	for _, c := range l.open {
		all = append(all, c)
	}
	return all
}
