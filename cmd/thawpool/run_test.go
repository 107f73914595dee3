package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/actors"
)

func TestRunStatus(t *testing.T) {
	code := func(n int) *int { return &n }
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(signalError{syscall.SIGINT})
	for _, tt := range []struct {
		ctx  context.Context
		res  actors.Result
		want int
	}{
		{t.Context(), actors.Result{Status: actors.StatusSuccess, ExitCode: code(0)}, 0},
		{t.Context(), actors.Result{Status: actors.StatusSuccess}, 0},
		{t.Context(), actors.Result{Status: actors.StatusError, ExitCode: code(7)}, 7},
		{t.Context(), actors.Result{Status: actors.StatusError, ExitCode: code(139)}, 139},
		{t.Context(), actors.Result{Status: actors.StatusError}, 1},
		{t.Context(), actors.Result{Status: actors.StatusTimeout}, 124},
		{t.Context(), actors.Result{Status: actors.StatusOOM, ExitCode: code(137)}, 137},
		{t.Context(), actors.Result{Status: actors.StatusKilled}, 125},
		{t.Context(), actors.Result{Status: actors.StatusRejected}, 125},
		{interrupted, actors.Result{Status: actors.StatusCancelled}, 130},
	} {
		if got := runStatus(tt.ctx, tt.res); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.res, got, tt.want)
		}
	}
}

func TestPrintOutcome(t *testing.T) {
	for name, tt := range map[string]struct {
		res  actors.Result
		want string
	}{
		"fine":      {actors.Result{}, ""},
		"traceback": {actors.Result{Error: &actors.RunError{Type: "E", Message: "m", Traceback: "Traceback:\nE: m\n"}}, "Traceback:\nE: m\n"},
		"timeout":   {actors.Result{Error: &actors.RunError{Type: "Timeout", Message: "m"}}, "thawpool: Timeout: m\n"},
		"exit":      {actors.Result{Error: &actors.RunError{Type: "SystemExit", Message: "exit status 3"}}, ""},
		"note":      {actors.Result{Notes: []string{"n"}}, "thawpool: note: n\n"},
	} {
		var b strings.Builder
		if err := printOutcome(&b, tt.res); err != nil || b.String() != tt.want {
			t.Errorf("%s: %q, %v", name, b.String(), err)
		}
	}
}

func TestReadCode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.py")
	if err := os.WriteFile(file, []byte("print(1)"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, err := readCode(strings.NewReader("from stdin"), file); err != nil || code != "print(1)" {
		t.Errorf("%q, %v", code, err)
	}
	if code, err := readCode(strings.NewReader("from stdin"), "-"); err != nil || code != "from stdin" {
		t.Errorf("%q, %v", code, err)
	}
	if _, err := readCode(nil, filepath.Join(t.TempDir(), "none.py")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := readCode(strings.NewReader(strings.Repeat("#", maxCode+1)), "-"); err == nil || !strings.Contains(err.Error(), "32MiB") {
		t.Error(err)
	}
}

func TestExitStatus(t *testing.T) {
	for name, tt := range map[string]struct {
		command string
		err     error
		code    int
		text    string
	}{
		"fine":       {"serve", nil, 0, ""},
		"failed":     {"serve", errors.Join(errors.New("a"), errors.New("b")), 1, "thawpool: a\nthawpool: b\n"},
		"run failed": {"run", errors.New("a"), 125, "thawpool: a\n"},
		"code's own": {"run", &exitError{Code: 7}, 7, ""},
		"both":       {"run", fmt.Errorf("x: %w", &exitError{Code: 7, Err: errors.New("why")}), 7, "thawpool: why\n"},
	} {
		var b strings.Builder
		if code := exitStatus(&b, tt.command, tt.err); code != tt.code || b.String() != tt.text {
			t.Errorf("%s: %d %q", name, code, b.String())
		}
	}
}
