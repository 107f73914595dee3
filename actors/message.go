package actors

import (
	"time"
)

// Request is one run_python call as the front took it in, validated.
type Request struct {
	ID      string        // request id, in every log line of the call
	Code    string        // the Python source
	Servers []string      // names of upstream servers the code may call; nil means every one that policy allows
	Timeout time.Duration // from the thaw; zero means the configured default
	Profile string        // which pool; empty means the default one
	Queued  time.Time     // when the front read the call, for the receipt
	// Output, when set, is given every byte that the code writes, as it comes and before any cut: fd is 1 or 2. The
	// session calls it from one goroutine at a time, and not after the Result was given; it must not keep p. A slow
	// Output holds up only its own run.
	Output func(fd int, p []byte)
	// Sent, when set, is closed once the answer has been written to the client, or never will be. The sandbox is destroyed
	// after that, or a moment later when it takes long: taking processes apart wants the processors that the answer needs.
	Sent <-chan struct{}
	// Follow, when set, is told what becomes of the call.
	Follow Follower
	// Trace is in every log line of the call, when it is set: the id of the trace that the call is part of.
	Trace string
	// TraceParent and TraceState are the caller's W3C trace context as it came, bounded but not checked; "" for none.
	TraceParent, TraceState string
}

// Status is how a run ended.
type Status string

// The outcomes of a run. Everything but StatusSuccess is an isError result for the model.
const (
	StatusSuccess   Status = "success"
	StatusError     Status = "error"     // the code raised, exited non-zero or crashed
	StatusTimeout   Status = "timeout"   // the host's clock ran out
	StatusOOM       Status = "oom"       // the memory limit ended it
	StatusKilled    Status = "killed"    // ended from outside: lost sandbox, shutdown, protocol violation
	StatusCancelled Status = "cancelled" // the client took the request back
	StatusRejected  Status = "rejected"  // never started: no sandbox could be had
)

// Result is the answer to a Request. The json names are the structuredContent of the tool's result.
type Result struct {
	Status    Status    `json:"status"`
	ExitCode  *int      `json:"exitCode,omitempty"`
	Stdout    string    `json:"stdout"`
	Stderr    string    `json:"stderr"`
	Value     *string   `json:"value,omitempty"` // repr of a trailing expression
	Error     *RunError `json:"error,omitempty"`
	Notes     []string  `json:"notes,omitempty"` // what the model should know besides, for example an OOM kill of a child
	Truncated bool      `json:"truncated,omitempty"`
	// StdoutBytes and StderrBytes count what the code wrote, also what was cut.
	StdoutBytes int64   `json:"stdoutBytes,omitempty"`
	StderrBytes int64   `json:"stderrBytes,omitempty"`
	Receipt     Receipt `json:"receipt"`
}

// RunError is what ended the code.
type RunError struct {
	Type      string `json:"type"` // Python exception class, or Timeout, OutOfMemory, Signal, Rejected …
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"`
}

// Receipt says what one call cost. Durations are milliseconds with a fraction.
type Receipt struct {
	RequestID string      `json:"requestId"`
	Pool      string      `json:"pool"`              // hit, wait or cold; empty when no sandbox was had
	Sandbox   string      `json:"sandbox,omitempty"` // its id
	QueueMS   float64     `json:"queueMs"`
	ThawMS    float64     `json:"thawMs"`
	RunMS     float64     `json:"runMs"`
	CPUMS     float64     `json:"cpuMs"` // of the run alone: the boot's share is taken off
	PeakBytes int64       `json:"peakMemoryBytes"`
	Calls     []InnerCall `json:"calls,omitempty"` // at most 200 of them; CallCount has the whole number
	CallCount int         `json:"callCount,omitempty"`
	// Plan is what calls would have done that were planned and not made, at most as many as Calls.
	Plan []PlannedCall `json:"plan,omitempty"`
	// KeptOut is how many bytes of tool results reached the code and not the model.
	KeptOut int64 `json:"keptOutBytes,omitempty"`
}

// InnerCall is one call that the code made through the host.
type InnerCall struct {
	Server   string  `json:"server,omitempty"`
	Tool     string  `json:"tool"`
	MS       float64 `json:"ms"`
	BytesIn  int     `json:"bytesIn"`  // arguments
	BytesOut int     `json:"bytesOut"` // result
	Outcome  string  `json:"outcome"`  // ok, error, denied, cancelled, timeout, planned
	// Planned is set with the outcome planned; the receipt's Plan gathers them.
	Planned *PlannedCall `json:"-"`
}

// PlannedCall is a call that was answered as planned and not made.
type PlannedCall struct {
	Server    string `json:"server"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"` // JSON, cut when it is long
}
