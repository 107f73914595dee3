package guest

import "encoding/json"

// FrameMax is the largest frame in bytes, its newline included, either way.
const FrameMax = 16 << 20

// PayloadMax is the largest payload in bytes of one out frame of an honest runner: the capacity of a Linux pipe.
const PayloadMax = 64 << 10

// DepthMax is how deep the JSON of a frame may be nested. Honest values stay far below; a decoder that recurses is safe
// with it.
const DepthMax = 256

// ProtocolVersion is the "v" of the ready frame that this package speaks.
const ProtocolVersion = 1

// Kind is the "t" of a frame.
type Kind string

// The frames from the sandbox.
const (
	KindReady  Kind = "ready"
	KindOut    Kind = "out"
	KindCall   Kind = "call"
	KindCancel Kind = "cancel"
	KindDone   Kind = "done"
	KindExit   Kind = "exit"
)

// Frame is any frame from the sandbox: Kind says which of the other fields mean something. Its contents are the claim of
// hostile code; the Reader has checked form and size only.
type Frame struct {
	Kind Kind
	Size int // bytes of the line, newline included

	// Ready
	Version int
	Python  string

	// Out
	FD   int    // 1 or 2
	Data []byte // valid until the next call of Reader.Next, and may be overwritten in place by the receiver

	// Call and Cancel
	ID   uint64 // from 1
	Verb string
	Args json.RawMessage // a JSON value, owned by the receiver

	// Done
	Value *string
	Error *Error
	Notes []string

	// Exit: Code is -1 where Signal is set.
	Code   int
	Signal int
	Reason string // set where the runner ended the run because the code broke the rules of the channel
}

// Error is the exception that ended the code.
type Error struct {
	Type      string `json:"type"`
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"`
}

// Run is the frame that starts the code.
type Run struct {
	ID       string   `json:"id"`
	Code     string   `json:"code"`
	ValueMax int      `json:"value_max"` // bytes of UTF-8 that the value's repr may have
	Servers  []Server `json:"servers"`
	Saved    []string `json:"saved"` // names of saved tools
}
