package runtime

import "errors"

// The kinds of failure that callers tell apart. Every error that leaves a room below runtime wraps at most one of them;
// the text around it is for people.
var (
	// ErrUnavailable: sandboxes cannot be had now (the daemon is down, being replaced or not reachable). Worth a retry.
	ErrUnavailable = errors.New("sandbox runtime is unavailable")
	// ErrLost: this sandbox died or was removed by something else. Another one may work.
	ErrLost = errors.New("sandbox was lost")
	// ErrUnsupported: this host lacks something that sandboxes need. A retry does not help; a Hint says what does.
	ErrUnsupported = errors.New("host cannot run sandboxes")
	// ErrImage: the image is missing or has no usable Python.
	ErrImage = errors.New("image is not usable")
)

// HintError is an error with a next step for the person who reads it.
type HintError struct {
	Err  error
	Hint string // one sentence or one command, without a final full stop
}

func (e *HintError) Error() string { return e.Err.Error() + " (" + e.Hint + ")" }
func (e *HintError) Unwrap() error { return e.Err }

// WithHint adds a next step to err. A nil err stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &HintError{Err: err, Hint: hint}
}
