package guest

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// installed is the guest as an image has it, unpacked from Files.
var installed = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "guest")
	return dir, os.CopyFS(dir, Files())
})

// runner is one runner process on a pair of pipes, past its ready frame.
type runner struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	reader *Reader
	writer *Writer
	ready  Frame
}

func startRunner(tb testing.TB) *runner {
	tb.Helper()
	exe := embeddedPython(tb)
	dir, err := installed()
	if err != nil {
		tb.Fatal(err)
	}
	// With bytecode, as in an image: the first runner of a test run writes it.
	argv := slices.DeleteFunc(Argv(exe, dir), func(arg string) bool { return arg == "-B" })
	argv = slices.Insert(argv, 1, "-X", "pycache_prefix="+filepath.Join(scratch, "pyc"))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(Env(), WorkspaceEnv+"="+tb.TempDir())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	r := &runner{cmd: cmd, stdin: stdin, reader: NewReader(stdout), writer: NewWriter(stdin)}
	tb.Cleanup(r.stop)
	f, err := r.reader.Next()
	if err != nil || f.Kind != KindReady {
		tb.Fatalf("in place of ready: %+v, %v", f, err)
	}
	r.ready = *f
	return r
}

func (r *runner) stop() {
	_ = r.stdin.Close()
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// run plays the host of one run and returns what it left.
func (r *runner) run(tb testing.TB, run Run, answer func(*Frame) (json.RawMessage, *CallError)) (stdout []byte, done, exit Frame) {
	tb.Helper()
	if err := r.writer.Run(run); err != nil {
		tb.Fatal(err)
	}
	for {
		f, err := r.reader.Next()
		if err != nil {
			tb.Fatal(err)
		}
		switch f.Kind {
		case KindOut:
			stdout = append(stdout, f.Data...)
		case KindCall:
			value, fault := answer(f)
			if err := r.writer.Reply(f.ID, value, fault); err != nil {
				tb.Fatal(err)
			}
		case KindDone:
			done = *f
		case KindExit:
			return stdout, done, *f
		case KindReady, KindCancel:
			tb.Fatalf("unexpected %+v", f)
		}
	}
}

// TestRunnerSpeaksWithCodec lets the Go side and the Python side of the protocol meet.
func TestRunnerSpeaksWithCodec(t *testing.T) {
	t.Parallel()
	r := startRunner(t)
	if r.ready.Version != ProtocolVersion || r.ready.Python == "" {
		t.Errorf("ready: %+v", r.ready)
	}
	code := `
import sys
print("é\x00\x1f\"\\😀", flush=True)
sys.stdout.buffer.write(b"\xff\n")
sys.stdout.flush()
r = await mcp_fs.read(n=9007199254740993, s="<&>\u2028")
print(r.n == 9007199254740993, r.s == "<&>\u2028")
try:
    await mcp_fs.fail()
except mcp.PolicyError as e:
    print(e)
[r.n, "é"]
`
	var calls []string
	stdout, done, exit := r.run(t, Run{
		ID: "r1", Code: code, ValueMax: 1 << 10, Servers: []Server{{Name: "fs", Alias: "fs", Description: "d"}},
	}, func(f *Frame) (json.RawMessage, *CallError) {
		calls = append(calls, f.Verb)
		var call struct {
			Server, Tool string
			Args         json.RawMessage
		}
		if err := json.Unmarshal(f.Args, &call); err != nil {
			t.Error(err)
		}
		if call.Tool == "fail" {
			return nil, &CallError{Type: ErrDenied, Message: "no\n\"entry\""}
		}
		return json.RawMessage(`{"content": [],` + "\n" + ` "structuredContent": ` + string(call.Args) + `}`), nil
	})
	want := "é\x00\x1f\"\\😀\n\xff\nTrue True\nno\n\"entry\"\n"
	if string(stdout) != want {
		t.Errorf("stdout %q", stdout)
	}
	if len(calls) != 2 || calls[0] != VerbCall {
		t.Errorf("calls %v", calls)
	}
	if done.Value == nil || *done.Value != "[9007199254740993, 'é']" || done.Error != nil || len(done.Notes) != 0 {
		t.Errorf("done %+v", done)
	}
	if exit.Code != 0 || exit.Signal != 0 {
		t.Errorf("exit %+v", exit)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("the runner ended with %v", err)
	}
}

// TestArgumentsAsDeepAsFramesMayBe finds that the deepest arguments that the guest sends are just taken, and that what is
// deeper is the code's own error.
func TestArgumentsAsDeepAsFramesMayBe(t *testing.T) {
	t.Parallel()
	r := startRunner(t)
	code := `
v, sent = 0, 0
while sent < 5000:
    try:
        save_memory("k", v)
    except mcp.ToolArgumentError as e:
        print(e)
        break
    v, sent = [v], sent + 1
`
	deepest := 0
	stdout, done, _ := r.run(t, Run{Code: code}, func(f *Frame) (json.RawMessage, *CallError) {
		deepest = max(deepest, Depth(f.Args)+1)
		return json.RawMessage(`{"version":1}`), nil
	})
	if deepest != DepthMax || !bytes.Contains(stdout, []byte("nested too deeply")) {
		t.Errorf("frames were %d deep at most; then %s %+v", deepest, stdout, done)
	}
}

// TestRunnerLetsTheHostBeSlow stops reading until the sandbox cannot write any more, and then finds everything there.
func TestRunnerLetsTheHostBeSlow(t *testing.T) {
	t.Parallel()
	r := startRunner(t)
	code := `
import threading
def spill():
    for i in range(64):
        print(str(i % 10) * 65535)
t = threading.Thread(target=spill)
t.start()
await mcp_fs.go()
`
	// The call comes while the thread spills; its answer waits behind no output, and the output behind no answer.
	stdout, _, exit := r.run(t, Run{Code: code, ValueMax: 10, Servers: []Server{{Name: "fs", Alias: "fs"}}},
		func(*Frame) (json.RawMessage, *CallError) { return json.RawMessage(`{"content":[]}`), nil })
	if len(stdout) != 64*65536 || exit.Code != 0 || bytes.Count(stdout, []byte("\n")) != 64 {
		t.Errorf("%d bytes, %+v", len(stdout), exit)
	}
}

// BenchmarkRunner measures the floor: a runner on plain pipes with no sandbox around it. Start-up is told as boot-ms and
// is not part of the time of an operation, which goes from the run frame written to the exit frame read.
func BenchmarkRunner(b *testing.B) {
	var boot, run time.Duration
	n := 0
	for b.Loop() {
		b.StopTimer()
		began := time.Now()
		r := startRunner(b)
		boot += time.Since(began)
		b.StartTimer()
		began = time.Now()
		r.run(b, Run{Code: "print(6*7)", ValueMax: 100}, nil)
		run += time.Since(began)
		b.StopTimer()
		r.stop()
		n++
		b.StartTimer()
	}
	b.ReportMetric(float64(boot.Microseconds())/1e3/float64(n), "boot-ms")
	b.ReportMetric(float64(run.Microseconds())/1e3/float64(n), "run-ms")
}
