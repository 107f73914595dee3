//go:build integration

package endtoend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// A real MCP client gets what an agent needs: output, values, tracebacks, limits, isolation.
func TestClient(t *testing.T) {
	e, base := env(t)
	t.Cleanup(func() { e.RequireNone(t, base) })
	cmd := command(t, e.StateDir, "serve", "--pool-size", "2")
	tr := transport.NewStdioWithOptions(cmd.Path, cmd.Env, cmd.Args[1:])
	c := client.NewClient(tr)
	if err := c.Start(context.Background()); err != nil { // its end would kill the server before the clean-up closes it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "run_python" {
		t.Fatalf("tools %+v, %v", tools, err)
	}
	for name, tt := range map[string]struct {
		args   map[string]any
		failed bool
		text   string
	}{
		"output":    {map[string]any{"code": "print(6 * 7)"}, false, "42\n"},
		"value":     {map[string]any{"code": "2 ** 70"}, false, "1180591620717411303424"},
		"await":     {map[string]any{"code": "import asyncio\nawait asyncio.sleep(0.01)\nprint('slept')"}, false, "slept\n"},
		"exception": {map[string]any{"code": "print('before')\n1 / 0"}, true, "before\n[error] Traceback (most recent call last):"},
		"timeout":   {map[string]any{"code": "print('x', flush=True)\nwhile True: pass", "timeout": 0.5}, true, "x\n[timeout] Timeout: "},
		"network":   {map[string]any{"code": "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)"}, true, "[error] Traceback"},
		"outside":   {map[string]any{"code": "open('/etc/passwd', 'w')"}, true, "[error] Traceback"},
		"argument":  {map[string]any{"code": "1", "timeout": 1000}, true, "[rejected] ArgumentError: timeout must be a number of seconds from 0.1 to 120"},
	} {
		req := mcp.CallToolRequest{}
		req.Params.Name, req.Params.Arguments = "run_python", tt.args
		res, err := c.CallTool(t.Context(), req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := res.Content[0].(mcp.TextContent).Text; res.IsError != tt.failed || !strings.HasPrefix(got, tt.text) {
			t.Errorf("%s: isError %v, text %q", name, res.IsError, got)
		}
	}
}

// Ready sandboxes are frozen, a call is a hit, and what it ran in is gone afterwards.
func TestHitsComeFromFrozenSandboxes(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "2").open()
	var frozen []string
	ctrdtest.Await(t, "the pool is full of frozen sandboxes", func() error {
		now, err := e.Count()
		if err != nil {
			return err
		}
		frozen = nil
		for _, id := range now.Minus(base)[ctrdtest.Cgroups] {
			if is, err := e.Group(id).Frozen(); err == nil && is {
				frozen = append(frozen, id)
			}
		}
		if len(frozen) != 2 {
			return fmt.Errorf("frozen are %v of %v", frozen, now[ctrdtest.Cgroups])
		}
		return nil
	})
	res := s.do(1, "print('hit')")
	if res.Status != actors.StatusSuccess || res.Receipt.Pool != "hit" || res.Stdout != "hit\n" {
		t.Errorf("%+v", res)
	}
	if r := res.Receipt; r.Sandbox != frozen[0] && r.Sandbox != frozen[1] {
		t.Errorf("ran in %s, frozen were %v", r.Sandbox, frozen)
	}
	s.close()
	e.RequireNone(t, base)
}

// An end of input while the pool warms up is an end like any other.
func TestEndWhileWarming(t *testing.T) {
	e, base := env(t)
	for range 3 {
		s := serve(t, e, "--pool-size", "8")
		s.close()
	}
	e.RequireNone(t, base)
}

// What was sent before the end of input is answered, once.
func TestAnswersAfterEnd(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "4").open()
	s.do(1, "pass")
	for id := 2; id < 6; id++ {
		s.call(id, fmt.Sprint("print(", id, ")"))
	}
	_ = s.in.Close()
	seen := map[any]bool{}
	for range 4 {
		a := s.recv()
		if res := a.Result.Structured; res.Status == actors.StatusSuccess && res.Stdout != fmt.Sprint(a.ID, "\n") {
			t.Errorf("%v got %q", a.ID, res.Stdout)
		}
		seen[a.ID] = true
	}
	if len(seen) != 4 {
		t.Errorf("answered %v", seen)
	}
	s.wait(0)
	e.RequireNone(t, base)
}

// 5 MB of code and 5 MB of output pass.
func TestBigMessages(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "1", "--output-max", "16m").open()
	big := strings.Repeat("0123456789abcdef", 5<<20/16)
	res := s.do(1, "s = '"+big+"'\nprint(s)")
	if res.Stdout != big+"\n" {
		t.Errorf("%s, %d bytes of output, %+v", res.Status, len(res.Stdout), res.Error)
	}
	s.close()
	e.RequireNone(t, base)
}

// Output that was cut can be read whole.
func TestWholeOutput(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "1", "--output-max", "4k").open()
	s.call(1, "for i in range(100000): print(i)")
	a := s.recv()
	if !a.Result.Structured.Truncated || len(a.Result.Content) != 2 || len(a.Result.Structured.Stdout) > 5<<10 {
		t.Fatalf("%+v", a)
	}
	s.send(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"` + a.Result.Content[1].URI + `"}}`)
	var want strings.Builder
	for i := range 100000 {
		fmt.Fprintln(&want, i)
	}
	if got := s.recv().Result.Contents; len(got) != 1 || got[0].Text != want.String() {
		t.Errorf("the resource differs")
	}
	s.close()
	e.RequireNone(t, base)
}

// A cancelled call is killed, its place is free at once, and it gets no answer.
func TestCancel(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "1", "--pool-max", "1").open()
	s.do(1, "pass")
	s.call(5, "import time\nprint('started', flush=True)\ntime.sleep(60)")
	ctrdtest.Await(t, "the call runs", func() error {
		if !strings.Contains(s.log.String(), `"event":"thaw"`) || strings.Count(s.log.String(), `"event":"thaw"`) < 2 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	if res := s.do(6, "print('next')"); res.Stdout != "next\n" { // with one sandbox at most this needs the other gone
		t.Errorf("%+v", res)
	}
	s.close()
	e.RequireNone(t, base)
}

// A slow call holds up neither ping nor the list of tools nor another call.
func TestSlowCall(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "2").open()
	s.call(1, "import time\ntime.sleep(60)")
	s.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	s.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	s.call(4, "print('fast')")
	for want := 2.0; want < 5; want++ {
		if a := s.recv(); a.ID != want {
			t.Errorf("answer to %v, want %v", a.ID, want)
		}
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	s.close()
	e.RequireNone(t, base)
}

// 500 calls in a row, with no pause, are right and leave no descriptor open.
func TestManyInARow(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "2", "--log-level", "warn").open()
	fds := func() int {
		names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	const perSandbox = 8 // descriptors; the pool may hold more or fewer sandboxes at the second look
	before := 0
	for i := range 500 {
		if res := s.do(i+1, fmt.Sprintf("print(%d)", i)); res.Stdout != fmt.Sprintln(i) {
			t.Fatalf("call %d: %+v", i, res)
		}
		if i == 20 {
			before = fds()
		}
	}
	if after := fds(); after > before+4*perSandbox {
		t.Errorf("%d descriptors after 20 calls, %d after 500", before, after)
	}
	s.close()
	e.RequireNone(t, base)
}

// 200 calls at concurrency 16 with four frozen sandboxes: all answered right, none crossed, nothing left.
func TestManyAtOnce(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "4", "--queue-wait", "2m", "--log-level", "warn").open()
	const calls, atOnce = 200, 16
	free := make(chan struct{}, atOnce)
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range calls {
			free <- struct{}{}
			s.call(i+1, fmt.Sprintf("import os\nopen('/tmp/f', 'x').write('%d')\nprint(open('/tmp/f').read(), os.listdir('/tmp'), os.getpid())", i))
		}
	})
	sandboxes := map[string]bool{}
	for range calls {
		a := s.recv()
		<-free
		res := a.Result.Structured
		if want := fmt.Sprintf("%v ['f'] ", a.ID.(float64)-1); !strings.HasPrefix(res.Stdout, want) {
			t.Errorf("call %v: %+v", a.ID, res)
		}
		sandboxes[res.Receipt.Sandbox] = true
	}
	sending.Wait()
	if len(sandboxes) != calls {
		t.Errorf("%d calls ran in %d sandboxes", calls, len(sandboxes))
	}
	s.close()
	e.RequireNone(t, base)
}

// However the process ends, nothing stays: by a signal it answers first; killed, others clear up after it.
func TestEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		signal syscall.Signal
		status int
	}{"SIGTERM": {syscall.SIGTERM, 0}, "SIGINT": {syscall.SIGINT, 0}, "SIGHUP": {syscall.SIGHUP, 0}, "SIGKILL": {syscall.SIGKILL, -9}} {
		t.Run(name, func(t *testing.T) {
			e, base := env(t)
			s := serve(t, e, "--pool-size", "3").open()
			s.do(1, "pass")
			s.call(2, "import time\nprint('so far', flush=True)\ntime.sleep(60)")
			s.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
			s.recv()
			if err := s.cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			if tt.status == 0 {
				if a := s.recv(); a.ID != 2.0 || !a.Result.IsError {
					t.Errorf("%+v", a)
				}
			}
			s.wait(tt.status)
			e.RequireNone(t, base)
		})
	}
}

// A client that goes away without a word, output first, is an end like any other.
func TestOutputClosed(t *testing.T) {
	e, base := env(t)
	cmd := command(t, e.StateDir, "serve", "--pool-size", "1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	_ = r.Close()
	if _, err := in.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	e.RequireNone(t, base)
}

// Where sandboxes cannot run the server still answers, says what is missing in doctor's words, and keeps to the protocol
// .
func TestSaysWhatIsMissing(t *testing.T) {
	e, _ := env(t)
	empty := t.TempDir()
	s := start(t, command(t, e.StateDir, "serve", "--bin-dir", empty, "--log-level", "trace")).open()
	s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if a := s.recv(); len(a.Result.Tools) != 1 {
		t.Errorf("%+v", a)
	}
	res := s.do(2, "print(1)")
	if res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, empty) {
		t.Fatalf("%+v", res)
	}
	s.close()
	_, stderr, status := shell(t, e, "print(1)", "run", "--bin-dir", empty, "-")
	if status != 125 || !strings.Contains(stderr, res.Error.Message) {
		t.Errorf("run says %q with status %d, serve %q", stderr, status, res.Error.Message)
	}
	stdout, _, status := shell(t, e, "", "doctor", "--bin-dir", empty)
	cause, _, _ := strings.Cut(res.Error.Message, " (to mend it: ")
	_, cause, _ = strings.Cut(cause, ": ")
	if status != 1 || !strings.Contains(stdout, cause) {
		t.Errorf("doctor says\n%swith status %d, serve %q", stdout, status, res.Error.Message)
	}
}

// Progress comes with the client's token alone, and before the result.
func TestProgress(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "1").open()
	s.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","_meta":{"progressToken":0},"arguments":{"code":"import time\ntime.sleep(5.5)"}}}`)
	if a := s.recv(); a.Method != "notifications/progress" {
		t.Errorf("%+v", a)
	}
	if a := s.recv(); a.ID != 1.0 {
		t.Errorf("%+v", a)
	}
	s.close()
	e.RequireNone(t, base)
}

// A timeout within the maximum is given in full, beyond it the call is refused.
func TestTimeout(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--pool-size", "1", "--timeout", "1", "--max-timeout", "10").open()
	began := time.Now()
	if res := s.do(1, "import time\ntime.sleep(1.5)\nprint('late')", `,"timeout":9`); res.Stdout != "late\n" {
		t.Errorf("after %v: %+v", time.Since(began), res)
	}
	if res := s.do(2, "pass", `,"timeout":11`); res.Status != actors.StatusRejected {
		t.Errorf("%+v", res)
	}
	if res := s.do(3, "import time\ntime.sleep(30)"); res.Status != actors.StatusTimeout {
		t.Errorf("%+v", res)
	}
	s.close()
	e.RequireNone(t, base)
}

// The keeper of the output has no file with a name.
func TestOutputsLeaveNoFile(t *testing.T) {
	e, _ := env(t)
	s := serve(t, e, "--pool-size", "1", "--output-max", "4k").open()
	s.do(1, "print('x' * 3000000)")
	names, err := os.ReadDir(filepath.Join(e.StateDir, "outputs"))
	if err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	s.close()
}
