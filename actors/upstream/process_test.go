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
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
)

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

func TestExitAtStart(t *testing.T) {
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

func TestHalfStartedServerIsKilledWithItsGroup(t *testing.T) {
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

func TestEnvironment(t *testing.T) {
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
