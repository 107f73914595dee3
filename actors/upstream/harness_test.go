package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/thawpool/thawpool/actors/upstream/fakeup"
)

func TestMain(m *testing.M) {
	if fakeup.Active() {
		fakeup.Main()
	}
	if os.Getenv(hostVariable) != "" {
		host()
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
