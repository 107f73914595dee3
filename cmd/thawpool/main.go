// Command thawpool runs Python for agents in fresh, already started, frozen rootless sandboxes.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	ctx, stop := signalContext()
	cmd, err := newRoot().ExecuteContextC(ctx)
	stop()
	os.Exit(exitStatus(os.Stderr, cmd.Name(), err))
}

// exitError ends the process with a status of its own. Without Err nothing is printed.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string { return fmt.Sprint(e.Err) }
func (e *exitError) Unwrap() error { return e.Err }

// exitStatus prints err, one line a problem, and gives the status of the process.
func exitStatus(w io.Writer, command string, err error) int {
	if err == nil {
		return 0
	}
	code := 1
	if command == "run" {
		code = runFailed
	}
	var exit *exitError
	if errors.As(err, &exit) {
		code, err = exit.Code, exit.Err
	}
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintln(w, "thawpool: "+strings.TrimRight(line, "\n"))
		}
	}
	return code
}
