package pool

import (
	"errors"
	"fmt"
	"time"
)

// Empty says what a call gets when no sandbox is ready.
type Empty string

// The choices for Config.Empty.
const (
	EmptyWait   Empty = "wait"   // it queues for the next sandbox that the refill brings
	EmptyCold   Empty = "cold"   // a boot starts for it at once, beside the refill, while Max allows; else it queues
	EmptyRefuse Empty = "refuse" // it is rejected at once
)

// Config bounds one pool. All fields are required; zero never means unlimited.
type Config struct {
	Size      int           // frozen sandboxes kept ready; with Auto, what it starts with
	Max       int           // sandboxes at once in any state: booting, ready, leased, being destroyed
	Refill    int           // boots side by side that keep the pool filled
	MaxAge    time.Duration // a ready sandbox older than this is replaced
	Empty     Empty         // what a call gets when none is ready
	Queue     int           // calls that may wait for a sandbox; 0 lets none wait for one that is not being booted for it
	QueueWait time.Duration // how long a call waits before it is rejected

	Auto    bool // Size follows arrivals and boot time, between SizeMin and SizeMax
	SizeMin int  // with Auto: the least Size
	SizeMax int  // with Auto: the greatest Size
}

// Default is what thawpool starts with when nothing is configured. By simulation a size of 6 keeps 99 % of independent
// calls hits when they come at half the rate at which the refill boots; 8 leaves room for a boot that is slower.
func Default() Config {
	return Config{
		Size: 8, Max: 24, Refill: 2, MaxAge: time.Hour,
		Empty: EmptyWait, Queue: 64, QueueWait: 30 * time.Second,
	}
}

// MinAge keeps MaxAge from making the pool do nothing but replace itself.
const MinAge = time.Second

// FieldError names the field of a Config that cannot be used, and why.
type FieldError struct {
	Field string
	Value any
	Err   error
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s %v: %v", e.Field, e.Value, e.Err) }
func (e *FieldError) Unwrap() error { return e.Err }

// Validate reports every field that cannot be used, each as a *FieldError, joined.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, format string, args ...any) {
		if !ok {
			errs = append(errs, &FieldError{Field: field, Value: value, Err: fmt.Errorf(format, args...)})
		}
	}
	check(c.Max >= 1, "Max", c.Max, "must be at least 1")
	check(c.Size >= 0, "Size", c.Size, "must not be negative")
	check(c.Size <= c.Max, "Size", c.Size, "must be at most Max (%d)", c.Max)
	check(c.Refill >= 1, "Refill", c.Refill, "must be at least 1")
	check(c.MaxAge >= MinAge, "MaxAge", c.MaxAge, "must be at least %s", MinAge)
	check(c.Queue >= 0, "Queue", c.Queue, "must not be negative")
	check(c.QueueWait > 0, "QueueWait", c.QueueWait, "must be greater than 0")
	switch c.Empty {
	case EmptyWait:
		check(c.Queue > 0 || c.Size > 0, "Queue", c.Queue, "must be at least 1 when Size is 0 and Empty is %q, or no call could ever run", EmptyWait)
	case EmptyRefuse:
		check(c.Size > 0, "Size", c.Size, "must be at least 1 when Empty is %q, or every call would be refused", EmptyRefuse)
	case EmptyCold:
	default:
		check(false, "Empty", c.Empty, "must be %q, %q or %q", EmptyWait, EmptyCold, EmptyRefuse)
	}
	if c.Auto {
		check(c.SizeMin >= 1, "SizeMin", c.SizeMin, "must be at least 1")
		check(c.SizeMax <= c.Max, "SizeMax", c.SizeMax, "must be at most Max (%d)", c.Max)
		check(c.SizeMin <= c.Size && c.Size <= c.SizeMax, "Size", c.Size, "must be between SizeMin (%d) and SizeMax (%d)", c.SizeMin, c.SizeMax)
	}
	return errors.Join(errs...)
}
