//go:build integration

package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/actors"
)

// In a shell run behaves as python does: output passes through, the exit status is the code's own.
func TestRun(t *testing.T) {
	e, base := env(t)
	every := string(allBytes())
	for name, tt := range map[string]struct {
		code   string
		args   []string
		stdout string
		stderr string // contained
		status int
	}{
		"output":    {"print(6 * 7)", nil, "42\n", "", 0},
		"both":      {"import sys\nprint('out')\nprint('err', file=sys.stderr)", nil, "out\n", "err\n", 0},
		"exit":      {"import sys\nsys.exit(7)", nil, "", "", 7},
		"message":   {"raise SystemExit('stop')", nil, "", "stop\n", 1},
		"exception": {"print('a')\n1 / 0", nil, "a\n", "ZeroDivisionError: division by zero\n", 1},
		"syntax":    {"def", nil, "", "SyntaxError", 1},
		"signal":    {"import os\nos.kill(os.getpid(), 11)", nil, "", "SIGSEGV", 139},
		"timeout":   {"print('x', flush=True)\nwhile True: pass", []string{"--timeout", "0.5"}, "x\n", "timeout", 124},
		"memory":    {"x = bytearray(1 << 30)", []string{"--memory", "128m"}, "", "memory limit 128 MiB", 137},
		"bytes":     {"import os\nos.write(1, bytes(range(256)))", nil, every, "", 0},
		"empty":     {"", nil, "", "", 0},
		"bad flag":  {"", []string{"--memory", "x"}, "", `"x"`, 125},
		"no stdin":  {"print(repr(input()))", nil, "", "EOFError", 1},
	} {
		stdout, stderr, status := shell(t, e, tt.code, "run", append(tt.args, "-")...)
		if stdout != tt.stdout || status != tt.status || !strings.Contains(stderr, tt.stderr) || tt.status == 0 && tt.stderr == "" && stderr != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", name, status, stdout, stderr)
		}
	}
	e.RequireNone(t, base)
}

func allBytes() (all []byte) {
	for i := range 256 {
		all = append(all, byte(i))
	}
	return all
}

// Output is passed on as it comes and whole, whatever an answer would hold of it.
func TestRunPassesAllOutput(t *testing.T) {
	e, base := env(t)
	stdout, stderr, status := shell(t, e, "for i in range(500000): print(i)", "run", "--output-max", "4k", "-")
	var want strings.Builder
	for i := range 500000 {
		fmt.Fprintln(&want, i)
	}
	if stdout != want.String() || status != 0 || stderr != "" {
		t.Errorf("status %d, %d bytes, want %d, stderr %q", status, len(stdout), want.Len(), stderr)
	}
	e.RequireNone(t, base)
}

func TestRunFileAndJSON(t *testing.T) {
	e, base := env(t)
	file := filepath.Join(t.TempDir(), "a.py")
	if err := os.WriteFile(file, []byte("print('x')\n9007199254740993"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _, status := shell(t, e, "", "run", "--json", file)
	var res actors.Result
	if err := json.Unmarshal([]byte(stdout), &res); err != nil || status != 0 {
		t.Fatalf("status %d, %v in %q", status, err, stdout)
	}
	if res.Status != actors.StatusSuccess || res.Stdout != "x\n" || *res.Value != "9007199254740993" || res.Receipt.Pool != "cold" {
		t.Errorf("%+v", res)
	}
	stdout, _, status = shell(t, e, "raise ValueError('no')", "run", "--json", "-")
	if err := json.Unmarshal([]byte(stdout), &res); err != nil || status != 1 || res.Error.Type != "ValueError" {
		t.Errorf("status %d, %v, %+v", status, err, res)
	}
	if _, stderr, status := shell(t, e, "", "run", filepath.Join(t.TempDir(), "none.py")); status != 125 || !strings.Contains(stderr, "none.py") {
		t.Errorf("status %d, %q", status, stderr)
	}
	e.RequireNone(t, base)
}

// A signal ends the code and the sandbox, and is told by the status.
func TestRunInterrupted(t *testing.T) {
	e, base := env(t)
	cmd := command(t, e.StateDir, "run", "-")
	cmd.Stdin = strings.NewReader("import time\nprint('started', flush=True)\ntime.sleep(60)")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("started\n"))
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit status %d", got)
	}
	e.RequireNone(t, base)
}

// A reader that has gone ends endless output, as it ends any other program.
func TestRunReaderGone(t *testing.T) {
	e, base := env(t)
	cmd := command(t, e.StateDir, "run", "-")
	cmd.Stdin = strings.NewReader("while True: print('x' * 1000)")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 141 {
		t.Errorf("exit status %d", got)
	}
	e.RequireNone(t, base)
}

// Doctor finds the same machine fit, down to a real sandbox.
func TestDoctor(t *testing.T) {
	e, base := env(t)
	stdout, stderr, status := shell(t, e, "", "doctor", "--json")
	var report struct {
		OK     bool
		Checks []struct {
			ID string
			OK bool
		}
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	last := report.Checks[len(report.Checks)-1]
	if status != 0 || !report.OK || last.ID != "sandbox" || !last.OK {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	e.RequireNone(t, base)
}
