//go:build integration

package endtoend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// programName is the program under test, built beside the others so that the service account gets it with them.
const programName = "thawpool-endtoend"

// newProgramName is the same as another version.
const newProgramName = "thawpool-endtoend-new"

// shared is the state directory of all tests of this package: making the default image takes seconds.
var shared struct {
	once sync.Once
	dir  string
}

func TestMain(m *testing.M) {
	if os.Getenv(upstreamEnv) != "" {
		if err := serveUpstream(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctrdtest.WithDisk(256 << 20)
	ctrdtest.Main(m, func() error {
		if shared.dir == "" {
			return nil
		}
		return ctrdtest.RemoveState(shared.dir)
	})
}

// build builds the program, once: the test that runs as the service account finds it built.
func build() error {
	if ctrdtest.Module() != "" {
		return nil
	}
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(bin, programName), "..")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	return errors.Join(buildNew(bin), buildFailshim(bin))
}

// env is the shared environment, and what is in it now.
func env(t testing.TB) (*ctrdtest.Env, ctrdtest.Leaks) {
	t.Helper()
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("/var/tmp", "tp-") //nolint:usetesting // all tests of the package share it
		if err != nil {
			t.Fatal(err)
		}
		shared.dir = filepath.Join(dir, "s")
		if out, err := command(t, shared.dir, "run", "-").CombinedOutput(); err != nil { // makes the image
			t.Fatalf("first run: %v\n%s", err, out)
		}
	})
	e := ctrdtest.OpenEnv(t, shared.dir)
	base, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	return e, base
}

// command is a call of the program with its state in dir. Nothing of the tester's own configuration reaches it.
func command(t testing.TB, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{name, "--state-dir", dir, "--bin-dir", ctrdtest.BinDir()}, args...)
	cmd := exec.Command(filepath.Join(ctrdtest.BinDir(), programName), args...)
	home, temp := t.TempDir(), ctrdtest.OpenEnv(t, dir).TempDir()
	if err := os.MkdirAll(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd.Env = []string{"HOME=" + home, "TMPDIR=" + temp, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + os.Getenv("XDG_RUNTIME_DIR")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// server is a running `thawpool serve` with raw lines in and out.
type server struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // what it wrote; closed at its end
	log   *lockedBuffer
	ended chan error
	gate  sync.Mutex // held by a test that keeps answers from being read
}

// lockedBuffer takes the log while the test may read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts the program on the shared state.
func serve(t testing.TB, e *ctrdtest.Env, args ...string) *server {
	t.Helper()
	return start(t, command(t, e.StateDir, "serve", append([]string{"--log-level", "debug", "--log-format", "json"}, args...)...))
}

func start(t testing.TB, cmd *exec.Cmd) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd, lines: make(chan string, 4096), log: &lockedBuffer{}, ended: make(chan error, 1)}
	if s.cmd.Stderr == nil {
		s.cmd.Stderr = s.log
	}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r := bufio.NewReaderSize(gated{out, &s.gate}, 1<<20)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				break
			}
			s.lines <- line
		}
		close(s.lines)
		s.ended <- s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("log of serve:\n%s", s.log)
		}
	})
	return s
}

// gated reads little at a time, and nothing more while its gate is locked.
type gated struct {
	io.Reader
	gate *sync.Mutex
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p[:min(len(p), 64<<10)])
	g.gate.Lock()
	defer g.gate.Unlock()
	return n, err
}

// open does MCP's handshake.
func (s *server) open() *server {
	s.t.Helper()
	s.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"t","version":"1"}}}`)
	s.recv()
	s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

func (s *server) send(line string) {
	s.t.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.t.Fatalf("send: %v", err)
	}
}

// answer is a message of the server.
type answer struct {
	JSONRPC string `json:"jsonrpc"`
	ID      any    `json:"id"`
	Method  string `json:"method"`
	Result  struct {
		IsError    bool                    `json:"isError"`
		Structured actors.Result           `json:"structuredContent"`
		Content    []content               `json:"content"`
		Contents   []content               `json:"contents"`
		Tools      []struct{ Name string } `json:"tools"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

type content struct{ Type, Text, URI string }

// recv gives the next message; whatever the server writes must be one.
func (s *server) recv() answer {
	s.t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			s.t.Fatal("the server has ended")
		}
		return s.parse(line)
	case <-time.After(2 * ctrdtest.Patience): // only when all is lost
		s.t.Fatal("no answer")
		return answer{}
	}
}

func (s *server) parse(line string) answer {
	s.t.Helper()
	var a answer
	if err := json.Unmarshal([]byte(line), &a); err != nil || a.JSONRPC != "2.0" {
		s.t.Fatalf("the server wrote %q: %v", line, err)
	}
	return a
}

// call sends a call of run_python.
func (s *server) call(id int, code string, more ...string) {
	s.t.Helper()
	c, err := json.Marshal(code)
	if err != nil {
		s.t.Fatal(err)
	}
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_python","arguments":{"code":%s%s}}}`,
		id, c, strings.Join(more, "")))
}

// do makes one call and gives its result.
func (s *server) do(id int, code string, more ...string) actors.Result {
	s.t.Helper()
	s.call(id, code, more...)
	a := s.recv()
	if a.ID != float64(id) || a.Error != nil {
		s.t.Fatalf("answer %+v", a)
	}
	return a.Result.Structured
}

// close ends the input and waits for a clean exit.
func (s *server) close() {
	s.t.Helper()
	_ = s.in.Close()
	s.wait(0)
}

// wait waits for the exit, and that it has this status; -9 is a kill.
func (s *server) wait(status int) {
	s.t.Helper()
	for line := range s.lines {
		s.parse(line)
	}
	err := <-s.ended
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
			got = -int(ws.Signal())
		}
	} else if err != nil {
		s.t.Fatal(err)
	}
	if got != status {
		s.t.Fatalf("exit status %d, want %d", got, status)
	}
}

// shell runs the program to its end.
func shell(t testing.TB, e *ctrdtest.Env, stdin, name string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*ctrdtest.Patience)
	defer cancel()
	cmd := command(t, e.StateDir, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}
