package policy

import (
	"errors"
	"fmt"
	"sync"
)

// Limits bound what the code of one run may do through the host.
type Limits struct {
	Calls    int   // calls of upstream tools
	Other    int   // all other calls to the host: docs, search, memory, saved tools
	Bytes    int64 // arguments and results together
	Parallel int   // calls of upstream tools in flight at once; more of them wait
}

// DefaultLimits are far above what a script within a run's time limit needs, and low enough that one run can neither
// fill the host's memory nor keep the upstream servers from others: 64 parallel calls are what two cores answer well.
func DefaultLimits() Limits {
	return Limits{Calls: 2000, Other: 10000, Bytes: 512 << 20, Parallel: 64}
}

// Validate reports every limit that is not positive.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int64
	}{{"calls", int64(l.Calls)}, {"other calls", int64(l.Other)}, {"bytes", l.Bytes}, {"parallel calls", int64(l.Parallel)}} {
		if f.value < 1 {
			errs = append(errs, fmt.Errorf("limit of %s a run is %d; it must be at least 1", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}

// ErrBudget is the kind of every refusal because a run has used up a limit.
var ErrBudget = errors.New("limit of this run is used up")

// Budget counts what one run has used. It is safe for concurrent use.
type Budget struct {
	limits Limits

	mu    sync.Mutex // guards what follows
	calls int
	other int
	bytes int64
}

// NewBudget is the full budget of one run.
func NewBudget(l Limits) *Budget { return &Budget{limits: l} }

// Call takes one upstream call with its arguments' size off the budget.
func (b *Budget) Call(bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls >= b.limits.Calls {
		return fmt.Errorf("%w: %d tool calls (--run-calls); do the rest in another run", ErrBudget, b.limits.Calls)
	}
	b.calls++
	return b.take(bytes)
}

// Verb takes one other call to the host off the budget.
func (b *Budget) Verb(bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.other >= b.limits.Other {
		return fmt.Errorf("%w: %d calls to the host; do the rest in another run", ErrBudget, b.limits.Other)
	}
	b.other++
	return b.take(bytes)
}

// Result takes a result's size off the budget. After an error the result must not be passed on.
func (b *Budget) Result(bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(bytes)
}

// take is called with mu held.
func (b *Budget) take(bytes int) error {
	if int64(bytes) > b.limits.Bytes-b.bytes {
		return fmt.Errorf("%w: %d bytes of arguments and results (--run-bytes); ask for less, or do the rest in another run", ErrBudget, b.limits.Bytes)
	}
	b.bytes += int64(bytes)
	return nil
}
