package host

import (
	"errors"
	"fmt"

	"github.com/thawpool/thawpool/runtime"
)

// Check is one thing that sandboxes need of the host, as found. The same words go to doctor's lines and to the errors of
// serve and run.
type Check struct {
	ID     string `json:"id"`               // stable, for scripts: "kernel", "subids" …
	Title  string `json:"title"`            // what was looked at
	OK     bool   `json:"ok"`               // found as needed
	Detail string `json:"detail,omitempty"` // what was found, for a passed check
	Cause  string `json:"cause,omitempty"`  // why it failed, for a person
	Fix    string `json:"fix,omitempty"`    // the one command that mends it
	Fatal  bool   `json:"fatal"`            // no sandbox can run while this fails
}

// FirstFailure is the first fatal failure as an ErrUnsupported with the command that mends it, or nil.
func FirstFailure(checks []Check) error {
	for _, c := range checks {
		if !c.OK && c.Fatal {
			return c.Err()
		}
	}
	return nil
}

// Err is the check's failure as an error, or nil when it passed.
func (c Check) Err() error {
	if c.OK {
		return nil
	}
	err := fmt.Errorf("%w: %s", runtime.ErrUnsupported, c.Cause)
	if c.Fix == "" {
		return err
	}
	return runtime.WithHint(err, "to mend it: "+c.Fix)
}

// failed turns an error into the failure of a check, its hint into the fix.
func (c Check) failed(err error) Check {
	c.OK, c.Cause = false, err.Error()
	var hint *runtime.HintError
	if errors.As(err, &hint) {
		c.Cause, c.Fix = hint.Err.Error(), hint.Hint
	}
	return c
}

// passed marks the check as found good.
func (c Check) passed(format string, args ...any) Check {
	c.OK, c.Detail = true, fmt.Sprintf(format, args...)
	return c
}

// broken marks the check as failed for cause, mended by fix.
func (c Check) broken(fix, format string, args ...any) Check {
	c.OK, c.Cause, c.Fix = false, fmt.Sprintf(format, args...), fix
	return c
}
