package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors/upstream/fakeup"
)

func TestIntegersAreExactBothWays(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{}))
	if raw := mustCall(t, c, "get_id", `{}`); !strings.Contains(raw, `"structuredContent":{"id":1915883588174806058}`) {
		t.Error(raw)
	}
	if raw := mustCall(t, c, "echo", `{"n":123456789012345678901234567890,"f":1.10}`); !strings.Contains(raw, `"structuredContent":{"n":123456789012345678901234567890,"f":1.10}`) {
		t.Error(raw)
	}
}

func TestNoiseOnStdoutIsSkipped(t *testing.T) {
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

func TestPages(t *testing.T) {
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

func TestResultsComeWhole(t *testing.T) {
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

func TestStderrIsAlwaysRead(t *testing.T) {
	t.Parallel()
	c := dial(t, fakeConfig(t, fakeup.Script{Stderr: "first\n", Flood: 512 << 10}))
	mustCall(t, c, "echo", `{}`)
	if n := len(c.Stderr()); n == 0 || n > tailSize {
		t.Errorf("kept %d bytes", n)
	}
}

func TestCancelledUpstreamAndConnectionReused(t *testing.T) {
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

func TestChatterDoesNotStarveCalls(t *testing.T) {
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

func TestChangesAreHeardWithoutTheCapability(t *testing.T) {
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
