package actors

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
)

// The bounds on what a run may tell besides its output, bytes. What is longer is cut and marked.
const (
	valueMax     = 64 << 10 // the runner keeps to it; a forged value is cut to it
	messageMax   = 64 << 10
	tracebackMax = 256 << 10
	noteMax      = 4 << 10
	notesMax     = 32 // notes
)

// The names in RunError.Type for ends that are no Python exception.
const (
	typeRejected  = "Rejected"
	typeTimeout   = "Timeout"
	typeOOM       = "OutOfMemory"
	typeSignal    = "Signal"
	typeExit      = "SystemExit"
	typeKilled    = "Killed"
	typeCancelled = "Cancelled"
	typeInternal  = "InternalError"
)

// stop is why a call is ended from outside, with how it is answered.
type stop struct {
	status Status
	kind   string
	text   string
}

func (s *stop) Error() string { return s.text }

// errStopped is why a call ends whose actors failed.
var errStopped = &stop{StatusKilled, typeInternal, "an internal failure ended the call; it may be tried again"}

// errShutdown is why a call ends that was running when Close came.
var errShutdown = &stop{StatusKilled, typeKilled, "thawpool is shutting down and has ended the call"}

// cancelled is why a call ends whose caller gave it up.
func cancelled(cause error) *stop {
	return &stop{StatusCancelled, typeCancelled, "the call was cancelled: " + cause.Error()}
}

// ended is the answer to a call that was ended from outside before it had a sandbox.
func ended(cause error) Result {
	s := stopOf(cause)
	return Result{Status: s.status, Error: &RunError{Type: s.kind, Message: s.text}}
}

func stopOf(cause error) *stop {
	var s *stop
	if errors.As(cause, &s) {
		return s
	}
	if cause == nil {
		return errStopped
	}
	return &stop{StatusKilled, typeInternal, cause.Error()}
}

// rejected is the answer to a call that could not start.
func rejected(format string, args ...any) Result {
	return Result{Status: StatusRejected, Error: &RunError{Type: typeRejected, Message: fmt.Sprintf(format, args...)}}
}

// rejection says why the pool had no sandbox for a call, and what to change.
func rejection(r pool.Reject, cfg pool.Config) Result {
	switch r.Reason {
	case pool.ReasonFull:
		return rejected("every sandbox is busy and %d calls wait already, as many as may (--queue); "+
			"try again later, or raise --pool-max or --queue%s", cfg.Queue, lastBoot(r))
	case pool.ReasonLate:
		return rejected("no sandbox came free within %s (--queue-wait); "+
			"try again later, or raise --pool-size, --pool-max or --queue-wait%s", cfg.QueueWait, lastBoot(r))
	case pool.ReasonEmpty:
		return rejected("no sandbox is ready and calls do not wait (--pool-empty=refuse); " +
			"try again in a moment, or raise --pool-size or set --pool-empty=wait")
	case pool.ReasonBoots:
		return rejected("no sandbox can be started: %s; the next attempt is in %s; `thawpool doctor` says what is missing",
			causeText(r.Cause), r.Retry.Round(100*time.Millisecond))
	case pool.ReasonDying:
		return rejected("one sandbox after another died before it could run the code: %s; "+
			"something on this machine ends them; `thawpool doctor` may say what", causeText(r.Cause))
	case pool.ReasonClosing:
		return rejected("thawpool is shutting down")
	}
	return Result{Status: StatusRejected, Error: &RunError{Type: typeInternal, Message: causeText(r.Cause)}}
}

// lastBoot is what may have kept a call waiting although boots are still tried.
func lastBoot(r pool.Reject) string {
	if r.Cause == nil {
		return ""
	}
	return "; the last boot failed: " + r.Cause.Error()
}

func causeText(err error) string {
	if err == nil {
		return "the cause is not known"
	}
	return err.Error()
}

// verdict is how a conversation ended, as far as the frames and the clock tell.
type verdict struct {
	stop     *stop // ended by us, with this answer; nil when the run ended by itself
	violates error // it broke the protocol
	unseen   bool  // the sandbox has not seen the run, and never will
	lost     bool  // the sandbox went without having said how the code ended
}

// conclude tells the outcome from the verdict, the exit and the kernel's counts. oom is the number of processes that the
// kernel killed for the memory limit during the run.
func (v *conversation) conclude(d verdict, oom int64) (Status, *RunError, *int) {
	limit := memory(v.profile.Limits)
	switch {
	case d.stop != nil:
		return d.stop.status, &RunError{Type: d.stop.kind, Message: d.stop.text}, nil
	case d.violates != nil:
		return StatusKilled, &RunError{Type: typeKilled, Message: "the run was stopped: " + d.violates.Error()}, nil
	case d.lost && oom > 0:
		return StatusOOM, oomError(limit), nil
	case d.lost:
		return StatusKilled, &RunError{Type: typeKilled,
			Message: "the sandbox was ended from outside before the code had finished; it may be tried again"}, nil
	}
	return v.exited(oom, limit)
}

func oomError(limit string) *RunError {
	return &RunError{Type: typeOOM, Message: limit + " exceeded: the kernel ended the process; use less memory at once"}
}

// memory names the limit for a message.
func memory(l runtime.Limits) string {
	if l.Memory <= 0 {
		return "memory limit"
	}
	return fmt.Sprintf("memory limit %d MiB", l.Memory>>20)
}

// exited is the outcome of a run whose process has ended by itself.
func (v *conversation) exited(oom int64, limit string) (Status, *RunError, *int) {
	code, sig := v.exit.code, v.exit.signal
	switch {
	case v.exit.reason != "":
		return StatusKilled, &RunError{Type: typeKilled, Message: "the run was stopped: " + clipText(v.exit.reason, messageMax)}, nil
	case sig == int(unix.SIGKILL) && oom > 0:
		code = 128 + sig
		return StatusOOM, oomError(limit), &code
	case sig != 0:
		code = 128 + sig
		return StatusError, signalError(sig), &code
	case v.failure != nil:
		return StatusError, v.failure, &code
	case code != 0:
		return StatusError, &RunError{Type: typeExit, Message: fmt.Sprintf("the code ended with exit status %d", code)}, &code
	}
	return StatusSuccess, nil, &code
}

// signalError names the signal that ended the process. Its number is a claim of the sandbox.
func signalError(n int) *RunError {
	name := unix.SignalName(unix.Signal(n))
	if name == "" {
		name = fmt.Sprintf("signal %d", n)
	}
	text := "the Python process was ended by " + name
	switch unix.Signal(n) {
	case unix.SIGSEGV, unix.SIGBUS, unix.SIGILL, unix.SIGFPE, unix.SIGABRT:
		text += ": it crashed in native code"
	case unix.SIGSYS:
		text += ": it made a system call that the sandbox forbids"
	}
	return &RunError{Type: typeSignal, Message: text}
}

// timeoutStop is the answer to a run whose time is up.
func timeoutStop(limit, most time.Duration) *stop {
	text := fmt.Sprintf("the code was still running after %s, its timeout, and was stopped", seconds(limit))
	if limit < most {
		text += fmt.Sprintf("; pass a timeout of up to %s seconds to give it more", strings.TrimSuffix(seconds(most), " s"))
	} else {
		text += "; that is the most a call may have (--max-timeout): do less in one call"
	}
	return &stop{StatusTimeout, typeTimeout, text}
}

func seconds(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", d.Seconds()), "0"), ".") + " s"
}

// clipText bounds a text that came from a sandbox.
func clipText(s string, limit int) string {
	if len(s) <= limit {
		return validText(s)
	}
	c := clip{max: limit}
	c.write([]byte(s))
	return c.text()
}

// ms is a duration for receipts and logs: milliseconds to the microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
