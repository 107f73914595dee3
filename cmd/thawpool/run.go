package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/pool"
)

// The exit statuses of run besides the code's own, as timeout(1), the kernel and containers have them.
const (
	runTimedOut = 124
	runFailed   = 125
	runOOM      = 128 + 9
)

// maxCode bounds the source that run reads, bytes.
const maxCode = actors.CodeMax

func newRunCommand(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "run FILE|-",
		Short: "Run one Python file in a sandbox",
		Long: fmt.Sprintf(`Run one Python file, or with - what comes on stdin, in a fresh sandbox.

What the code prints passes through as it comes, a traceback goes to stderr, and the exit status is the code's own;
%d means that its time ran out, %d that its memory did, 128+N that signal N ended it, and %d that thawpool failed.`,
			runTimedOut, runOOM, runFailed),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the structured answer instead of the output")
	return cmd
}

func (a *app) run(cmd *cobra.Command, file string, asJSON bool) error {
	if err := a.drop(); err != nil {
		return err
	}
	code, err := readCode(cmd.InOrStdin(), file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	a.onlyOne()
	if a.hub, err = a.openHub(nil); err != nil {
		return err
	}
	s, err := a.tryOpen(ctx)
	if err != nil {
		return err
	}
	req := actors.Request{ID: "run", Code: code, Queued: time.Now()}
	out, errOut := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if !asJSON {
		req.Output = passOn(out, errOut, cancel)
	}
	res := s.Run(ctx, req)
	if asJSON {
		err = json.NewEncoder(out).Encode(res)
	} else {
		err = printOutcome(errOut, res)
	}
	err = errors.Join(err, a.closeAll(ctx, s, stopTime))
	if status := runStatus(ctx, res); status != 0 && err == nil {
		return &exitError{Code: status}
	}
	return err
}

// passOn writes output as it comes. A reader that has gone ends the code, as SIGPIPE would.
func passOn(out, errOut io.Writer, cancel context.CancelCauseFunc) func(int, []byte) {
	return func(fd int, p []byte) {
		w := out
		if fd == 2 {
			w = errOut
		}
		if _, err := w.Write(p); err != nil {
			cancel(signalError{syscall.SIGPIPE})
		}
	}
}

// onlyOne makes the chosen profile's pool boot one sandbox when it is asked for, and none ahead.
func (a *app) onlyOne() {
	a.narrow()
	p := &a.cfg.Pool
	p.Auto, p.Size, p.Max, p.Refill, p.Empty, p.Queue = false, 0, 1, 1, pool.EmptyCold, 1
}

// readCode reads the source from a file, or from in for "-".
func readCode(in io.Reader, file string) (string, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	code, err := io.ReadAll(io.LimitReader(in, maxCode+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	if len(code) > maxCode {
		return "", fmt.Errorf("%s is longer than %s", file, sizeText(maxCode))
	}
	return string(code), nil
}

// printOutcome says on stderr how the code ended, where its output does not.
func printOutcome(w io.Writer, res actors.Result) error {
	var b strings.Builder
	switch e := res.Error; {
	case e == nil:
	case e.Type == "SystemExit": // the code's own word, as its exit status is
	case e.Traceback != "":
		b.WriteString(strings.TrimRight(e.Traceback, "\n") + "\n")
	default:
		fmt.Fprintf(&b, "thawpool: %s: %s\n", e.Type, e.Message)
	}
	for _, n := range res.Notes {
		fmt.Fprintf(&b, "thawpool: note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// runStatus is the exit status that tells how the code ended.
func runStatus(ctx context.Context, res actors.Result) int {
	var sig signalError
	switch res.Status {
	case actors.StatusSuccess, actors.StatusError:
		if res.ExitCode != nil {
			return *res.ExitCode
		}
		if res.Status == actors.StatusError {
			return 1
		}
		return 0
	case actors.StatusTimeout:
		return runTimedOut
	case actors.StatusOOM:
		return runOOM
	}
	if errors.As(context.Cause(ctx), &sig) {
		return 128 + int(sig.sig)
	}
	return runFailed
}
