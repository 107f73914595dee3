package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

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
