// Command thawpool runs Python for agents in fresh, already started, frozen rootless sandboxes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
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

// signalError is why a context ended.
type signalError struct{ sig syscall.Signal }

func (e signalError) Error() string { return "stopped by signal: " + e.sig.String() }

// signalContext ends the context with the first signal that asks to stop, and the process with the second.
func signalContext() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		first := <-signals
		cancel(signalError{first.(syscall.Signal)})
		os.Exit(128 + int((<-signals).(syscall.Signal)))
	}()
	// A write to a closed stdout becomes an error, where it would end the process. Children keep the default.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
