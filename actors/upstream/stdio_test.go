package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
)

func TestMain(m *testing.M) {
	if fakeup.Active() {
		fakeup.Main()
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of these tests; no test waits it out unless it fails.
const patience = 30 * time.Second

func fakeConfig(t *testing.T, s fakeup.Script) Config {
	t.Helper()
	command, env := fakeup.Command(s)
	return Config{Name: "up", Kind: KindStdio, Command: command, Env: env, Log: zerolog.Nop(), Version: "test"}
}

// dial connects, and checks at the end that the child and all its descendants are gone.
func dial(t *testing.T, cfg Config) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := Dial(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		assertGone(t, c)
	})
	return c
}

func assertGone(t *testing.T, c *Conn) {
	t.Helper()
	if c.proc == nil {
		return
	}
	for _, stat := range group(t, c.proc.pid) {
		t.Errorf("of group %d there is still %s", c.proc.pid, stat)
	}
	if n := killMarked(func(m string) bool { return m == c.proc.mark }); n != 0 {
		t.Errorf("%d marked processes were left", n)
	}
}

// group lists what lives in a process group. Zombies are dead: they wait for their parent.
func group(t *testing.T, pgid int) (living []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		stat := readFileOr(path)
		_, after, _ := strings.Cut(stat, ") ")
		if f := strings.Fields(after); len(f) > 2 && f[2] == strconv.Itoa(pgid) && f[0] != "Z" && f[0] != "X" {
			living = append(living, stat)
		}
	}
	return living
}

func call(t *testing.T, c *Conn, tool, args string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	raw, err := c.CallTool(ctx, tool, json.RawMessage(args))
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%s was not answered", tool)
	}
	return string(raw), err
}

func mustCall(t *testing.T, c *Conn, tool, args string) string {
	t.Helper()
	raw, err := call(t, c, tool, args)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return raw
}

func TestC28IntegersAreExactBothWays(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{}))
	if raw := mustCall(t, c, "get_id", `{}`); !strings.Contains(raw, `"structuredContent":{"id":1915883588174806058}`) {
		t.Error(raw)
	}
	if raw := mustCall(t, c, "echo", `{"n":123456789012345678901234567890,"f":1.10}`); !strings.Contains(raw, `"structuredContent":{"n":123456789012345678901234567890,"f":1.10}`) {
		t.Error(raw)
	}
}

func TestC07NoiseOnStdoutIsSkipped(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{Lines: []string{
		"Starting...", "{", "  x: 1", "}", "", "   ", "repeat 1000000", "\xff\xfe\x00", `{"level":"info","id":2}`,
		`[]`, `null`, `"text"`, `5`, `{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"1.0","id":1,"result":{}}`, "\x1b[2J\r",
	}}))
	if tools, _, err := c.ListTools(t.Context()); err != nil || len(tools) != len(fakeup.Builtin()) {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	if raw := mustCall(t, c, "echo", `{"text":"ok"}`); !strings.Contains(raw, `{"text":"ok"}`) {
		t.Error(raw)
	}
}

func TestOverlongAndBrokenAnswersFailTheirCallAtOnce(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, fakeup.Script{})
	cfg.MaxMessage = 64 << 10
	c := dial(t, cfg)
	if _, err := call(t, c, "big", `{"bytes":200000}`); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	long := strings.Repeat("y", 100_000)
	for _, line := range []string{
		`{"result":{"content":[{"type":"text","text":"` + long + `","id":7}]},"jsonrpc":"2.0","id":ID}`,
		`{"result":{"x":"` + long + `"},"id":ID,"jsonrpc":"2.0"}`,
		`{"id":ID,"result":{"x":"` + long + `"}}`,
		`{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}`,
	} {
		args, _ := json.Marshal(map[string]string{"line": line})
		if _, err := call(t, c, "raw", string(args)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.40s: %v", line, err)
		}
	}
	if raw := mustCall(t, c, "big", `{"bytes":60000}`); len(raw) < 60000 {
		t.Error("the connection did not survive")
	}
}

func TestBytesThatAreNotUTF8AreReplaced(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{Tools: nil, Name: "f"}))
	raw := mustCall(t, c, "raw", `{"line":"{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\\ud800b\"}]}}"}`)
	if !json.Valid([]byte(raw)) {
		t.Error(raw)
	}
}

func TestC09C10Pages(t *testing.T) {
	t.Parallel()
	var many []json.RawMessage
	for i := range 101 {
		many = append(many, json.RawMessage(fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i)))
	}
	for _, tc := range []struct {
		cursors string
		want    int
		note    bool
	}{
		{"", 101, false}, {"empty", 101, false}, {"circle", 100, true}, {"endless", 101, true},
	} {
		t.Run("cursors "+tc.cursors, func(t *testing.T) {
			t.Parallel()
			c := dial(t, fakeConfig(t, fakeup.Script{Tools: many, PageSize: 50, Cursors: tc.cursors}))
			tools, note, err := c.ListTools(t.Context())
			if err != nil || len(tools) != tc.want || (note != "") != tc.note {
				t.Errorf("%d tools, note %q, %v", len(tools), note, err)
			}
			if tc.want == 101 && string(tools[100]) != string(many[100]) {
				t.Errorf("last tool is %s", tools[100])
			}
		})
	}
}

func TestC17C18ResultsComeWhole(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{}))
	if raw := mustCall(t, c, "fail", `{"text":"quota"}`); !strings.Contains(raw, `"isError":true`) || !strings.Contains(raw, "quota") {
		t.Error(raw)
	}
	var r struct{ Content []struct{ Type string } }
	if err := json.Unmarshal([]byte(mustCall(t, c, "blocks", `{}`)), &r); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, b := range r.Content {
		kinds = append(kinds, b.Type)
	}
	if got := strings.Join(kinds, " "); got != "text image audio resource resource_link text" {
		t.Error(got)
	}
}

func TestC19StderrIsAlwaysRead(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{Stderr: "first\n", Flood: 512 << 10}))
	mustCall(t, c, "echo", `{}`)
	if n := len(c.Stderr()); n == 0 || n > tailSize {
		t.Errorf("kept %d bytes", n)
	}
}

func TestCrashInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ args, want string }{
		{`{"code":3,"words":"disk is full\n"}`, "exited with status 3"},
		{`{"code":0,"words":"disk is full"}`, "exited with status 0"},
	} {
		c := dial(t, fakeConfig(t, fakeup.Script{}))
		other := make(chan error, 1)
		go func() {
			_, err := c.CallTool(t.Context(), "never", nil)
			other <- err
		}()
		_, err := call(t, c, "crash", tc.args)
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "disk is full") || !strings.Contains(err.Error(), `"up"`) {
			t.Errorf("got %v", err)
		}
		if err := <-other; !errors.Is(err, ErrLost) {
			t.Errorf("the other call in flight: %v", err)
		}
		<-c.Done()
		if _, err := call(t, c, "echo", `{}`); !errors.Is(err, ErrLost) {
			t.Errorf("a later call: %v", err)
		}
	}
}

func TestKilledInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{}))
	go func() { _ = syscall.Kill(c.PID(), syscall.SIGKILL) }()
	if _, err := call(t, c, "never", `{}`); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "SIGKILL") {
		t.Errorf("got %v", err)
	}
}

func TestServerThatClosesItsOutputIsLost(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{IgnoreTerm: true}))
	if _, err := call(t, c, "close_stdout", `{}`); !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Error("the connection lives on")
	}
}

func TestC25ExitAtStart(t *testing.T) {
	t.Parallel()
	code := 7
	_, err := Dial(t.Context(), fakeConfig(t, fakeup.Script{Exit: &code, Stderr: "no licence\n"}))
	if !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), "status 7") || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfStartingSayWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cfg  Config
		want string
	}{
		"not on PATH":    {Config{Command: "no-such-server"}, "not on PATH"},
		"own PATH":       {Config{Command: "sh", Env: map[string]string{"PATH": dir}}, dir},
		"missing":        {Config{Command: dir + "/x"}, "does not exist"},
		"not executable": {Config{Command: plain}, "chmod +x"},
		"directory":      {Config{Command: dir}, "directory"},
		"no command":     {Config{}, "no command"},
		"missing dir":    {Config{Command: "/bin/sh", Dir: dir + "/gone"}, "gone"},
		"bad format":     {Config{Command: script(t, "\x00\x01")}, "could not be started"},
	} {
		tc.cfg.Name, tc.cfg.Kind = "up", KindStdio
		_, err := Dial(t.Context(), tc.cfg)
		if !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHandshakeThatIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Dial(t.Context(), fakeConfig(t, fakeup.Script{InitError: "licence expired"}))
	if !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), "licence expired") {
		t.Errorf("got %v", err)
	}
}

func TestC24HalfStartedServerIsKilledWithItsGroup(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := Dial(ctx, fakeConfig(t, fakeup.Script{InitNever: true, IgnoreTerm: true, Journal: journal}))
		result <- err
	}()
	awaitJournal(t, journal, `"initialize"`)
	cancel()
	if err := <-result; !errors.Is(err, ErrStart) || !strings.Contains(err.Error(), "in time") {
		t.Errorf("got %v", err)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(readFile(t, journal), "start "), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there", pid)
	}
	if strings.Contains(readFile(t, journal), methodCancelled) {
		t.Error("initialize was cancelled, which the protocol forbids")
	}
}

func TestDescendantsAreKilled(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"close", "kill", "crash"} {
		for _, setsid := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s setsid %t", end, setsid), func(t *testing.T) {
				t.Parallel()
				c := dial(t, fakeConfig(t, fakeup.Script{}))
				var r struct{ StructuredContent struct{ PID int } }
				if err := json.Unmarshal([]byte(mustCall(t, c, "spawn", fmt.Sprintf(`{"setsid":%t}`, setsid))), &r); err != nil {
					t.Fatal(err)
				}
				switch end {
				case "close":
					if err := c.Close(t.Context()); err != nil {
						t.Error(err)
					}
				case "kill":
					c.Kill()
					<-c.proc.exited
				case "crash":
					_, _ = call(t, c, "crash", `{"code":1}`)
					<-c.Done()
					<-c.proc.exited
				}
				awaitNoProcess(t, r.StructuredContent.PID)
			})
		}
	}
}

// awaitNoProcess waits until pid is gone or a zombie that init has yet to reap.
func awaitNoProcess(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		stat := readFileOr(fmt.Sprintf("/proc/%d/stat", pid))
		if stat == "" || strings.Contains(stat, ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("process %d is still there: %s", pid, stat)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestServerThatIgnoresTermIsKilled(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{IgnoreTerm: true}))
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestC22CancelledUpstreamAndConnectionReused(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	c := dial(t, fakeConfig(t, fakeup.Script{Journal: journal}))
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "sleep", json.RawMessage(`{"ms":600000}`))
		result <- err
	}()
	awaitJournal(t, journal, `"sleep"`)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	awaitJournal(t, journal, methodCancelled)
	awaitJournal(t, journal, "gave up")
	pid := c.PID()
	if raw := mustCall(t, c, "echo", `{"text":"again"}`); !strings.Contains(raw, "again") || c.PID() != pid {
		t.Error(raw)
	}
}

func TestDeafServerBlocksNobody(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, fakeup.Script{Deaf: true})
	cfg.MaxQueued = 1 << 20
	c := dial(t, cfg)
	if _, _, err := c.ListTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	huge := json.RawMessage(`{"text":"` + strings.Repeat("x", 200<<10) + `"}`)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for range cap(errs) {
		wg.Go(func() {
			_, err := c.CallTool(ctx, "echo", huge)
			errs <- err
		})
	}
	if err := <-errs; !errors.Is(err, ErrBusy) { // some find the queue full at once
		t.Errorf("got %v", err)
	}
	cancel()
	wg.Wait()
}

func TestC27ChatterDoesNotStarveCalls(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{Chatter: 50 * time.Microsecond}))
	for i := range 20 {
		if raw := mustCall(t, c, "echo", fmt.Sprintf(`{"n":%d}`, i)); !strings.Contains(raw, fmt.Sprintf(`{"n":%d}`, i)) {
			t.Fatal(raw)
		}
	}
}

func TestManyCallsShareOneConnection(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{}))
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			raw, err := c.CallTool(t.Context(), "echo", json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)))
			if err != nil || !strings.Contains(string(raw), fmt.Sprintf(`"structuredContent":{"n":%d}`, i)) {
				t.Errorf("%d: %s, %v", i, raw, err)
			}
		})
	}
	wg.Wait()
}

func TestC11ChangesAreHeardWithoutTheCapability(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{}))
	mustCall(t, c, "change", `{"times":10,"tools":[{"name":"b","inputSchema":{"type":"object"}}]}`)
	select {
	case <-c.Changed():
	case <-time.After(patience):
		t.Fatal("not heard")
	}
	tools, _, err := c.ListTools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Errorf("%d tools, %v", len(tools), err)
	}
}

func TestF05E09Environment(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	t.Setenv("LC_TIME", "C.UTF-8")
	cfg := fakeConfig(t, fakeup.Script{})
	cfg.Env["MY"] = ""
	cfg.Env["TZ"] = "UTC"
	c := dial(t, cfg)
	var r struct{ StructuredContent struct{ Env []string } }
	if err := json.Unmarshal([]byte(mustCall(t, c, "env", `{}`)), &r); err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{"MY": true, MarkVariable: true, config.EnvDepth: true, fakeup.Variable: true, "GORACE": true}
	for _, n := range safeEnv {
		allowed[n] = true
	}
	got := map[string]string{}
	for _, kv := range r.StructuredContent.Env {
		name, value, _ := strings.Cut(kv, "=")
		got[name] = value
		if !allowed[name] && !strings.HasPrefix(name, "LC_") {
			t.Errorf("%s was handed on", name)
		}
	}
	if got[config.EnvDepth] != "1" {
		t.Errorf("depth %q: a loop of thawpools would not be seen", got[config.EnvDepth])
	}
	if got["PATH"] == "" || got["TZ"] != "UTC" || got["LC_TIME"] != "C.UTF-8" {
		t.Errorf("got %v", got)
	}
	if _, ok := got["MY"]; !ok {
		t.Error("an empty own variable is missing")
	}
}

func TestServersWordsAreFreeOfSecrets(t *testing.T) {
	t.Parallel()
	cfg := fakeConfig(t, fakeup.Script{})
	cfg.Env["API_TOKEN"] = "s3cr3t-value"
	c := dial(t, cfg)
	_, err := call(t, c, "rpc_error", `{}`)
	var rpc *RPCError
	if !errors.As(err, &rpc) || rpc.Code != -32602 || !strings.Contains(err.Error(), "quota exceeded") || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
	_, err = call(t, c, "crash", `{"code":1,"words":"bad s3cr3t-value \u001b[2J\n"}`)
	if err == nil || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %v", err)
	}
}

func awaitJournal(t *testing.T, path, what string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if strings.Contains(readFileOr(path), what) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s in the journal:\n%s", what, readFileOr(path))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func readFileOr(path string) string {
	raw, _ := os.ReadFile(path)
	return string(raw)
}
