//go:build integration

package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	mcpserver "github.com/mark3labs/mcp-go/server"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// planted begins every secret of these tests; what follows says where it was put.
const planted = "planted-in-"

var plantedWord = regexp.MustCompile(planted + `[a-z-]+`)

// collected takes traces by OTLP over HTTP, and keeps them as text.
type collected struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var m collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &m)
	}
	if err != nil || r.Header.Get("Collector-Key") != planted+"collector-header" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(m.String())
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// remote is an MCP server over HTTP that wants the secrets of its definition.
func remote(t *testing.T) string {
	t.Helper()
	s := mcpserver.NewMCPServer("remote", "1")
	addEcho(s)
	inner := mcpserver.NewStreamableHTTPServer(s)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+planted+"header" || r.URL.Query().Get("key") != planted+"url" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h.URL + "/mcp?key=" + planted + "url"
}

// plantServers defines a server with secrets in its environment and arguments, one with secrets in its address and headers,
// and one like it that cannot be reached.
func plantServers(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{"Authorization": "Bearer " + planted + "header"}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"abacus": map[string]any{"command": self, "args": []string{"--key", planted + "server-arguments"},
			"env": map[string]string{upstreamEnv: mortal, upstreamSecret: planted + "server-environment"}},
		"remote": map[string]any{"url": remote(t), "headers": headers},
		"gone":   map[string]any{"url": "http://127.0.0.1:1/mcp?key=" + planted + "url", "headers": headers},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "servers.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// plantedCode uses every secret that code can have, and meets every failure in which one could be told.
const plantedCode = `from mcp import runtime
secret = "planted-in-code"
print("planted-in-output")
print(await mcp_abacus.echo(text="planted-in-inner-arguments"), await mcp_remote.echo(text="planted-in-inner-arguments"))
await runtime.save_memory("key", "planted-in-memory")
await runtime.delete_memory("key")
for call in (lambda: mcp_gone.echo(text="x"), lambda: mcp_abacus.echo(text=1, wrong="planted-in-inner-arguments"), lambda: mcp_abacus.die()):
    try:
        await call()
    except Exception as e:
        pass
raise ValueError("planted-in-message")`

// looked is all that operators can look at of one process, by where they find it.
func looked(t *testing.T, e *ctrdtest.Env, more ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	traces := &collected{}
	receiver := httptest.NewServer(traces)
	defer receiver.Close()
	token := planted + "token-file"
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--listen", "127.0.0.1:0", "--listen-token-file", filepath.Join(dir, "token"), "--pool-size", "1",
		"--audit", filepath.Join(dir, "audit.jsonl"), "--servers-config", plantServers(t), "--log-level", "trace", "--log-format", "json"}, more...)
	cmd := command(t, e.StateDir, "serve", args...)
	cmd.Env = append(cmd.Env, "OUR_API_KEY="+planted+"environment", "OTEL_EXPORTER_OTLP_ENDPOINT="+receiver.URL,
		"OTEL_EXPORTER_OTLP_HEADERS=collector-key="+planted+"collector-header")
	s := start(t, cmd).open()
	own := s.operators()
	res := s.do(1, plantedCode)
	if res.Status != actors.StatusError || res.Error.Type != "ValueError" || !strings.Contains(res.Stdout, planted+"inner-arguments "+planted+"inner-arguments") {
		t.Fatalf("the code did not use what was planted: %+v", res)
	}
	s.do(2, "await mcp_abacus.echo(text='x')") // starts the dead server again, with its last words in hand
	all := map[string]string{}
	for _, path := range []string{"/", "/page.js", "/metrics", "/readyz", "/healthz", "/api/state", "/api/events", "/api/calls", "/api/history", "/api/checks"} {
		code, text := fetch(t, own+path, token)
		if code != http.StatusOK || text == "" {
			t.Errorf("%s: %d", path, code)
		}
		all[path] = text
		_, all["refused "+path] = fetch(t, own+path, "")
	}
	var calls []struct{ ID string }
	if err := json.Unmarshal([]byte(all["/api/calls"]), &calls); err != nil || len(calls) != 2 {
		t.Fatal(err, calls)
	}
	_, all["the call"] = fetch(t, own+"/api/calls/"+calls[1].ID, token)
	for name, args := range map[string][]string{"status": nil, "status --json": {"--json"}} {
		stdout, stderr, _ := shell(t, e, "", "status", args...)
		all[name] = stdout + stderr
	}
	s.close()
	all["log"], all["traces"] = s.log.String(), traces.String()
	for name, file := range map[string]string{"audit": filepath.Join(dir, "audit.jsonl"), "keeper's log": filepath.Join(e.StateDir, "log", "keeper.log")} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(data)
	}
	for name, want := range map[string]string{ // so that nothing was looked at which is empty
		"log": calls[1].ID, "traces": calls[1].ID, "audit": calls[1].ID, "/metrics": `server="abacus"`, "/api/state": "the last bead is gone",
		"/api/events": "the last bead is gone", "the call": `"tool":"echo"`, "status": "server gone", "status --json": `"name":"remote"`, "keeper's log": "containerd",
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("%s lacks %q: %s", name, want, all[name])
		}
	}
	return all
}

// found lists the secrets in what was looked at, with where they are.
func found(all map[string]string) (found []string) {
	for name, text := range all {
		for _, word := range plantedWord.FindAllString(text, -1) {
			if f := fmt.Sprintf("%s: %s", name, word); !slices.Contains(found, f) {
				found = append(found, f)
			}
		}
	}
	slices.Sort(found)
	return found
}

// No secret that a process is given, or that code works with, is in anything that operators see; what code prints is on the
// page alone. Where the code is asked for it is there, which also shows that this test would find a secret.
func TestNoSecretIsTold(t *testing.T) {
	e, base := env(t)
	if got, want := found(looked(t, e)), []string{"the call: " + planted + "inner-arguments", "the call: " + planted + "output"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want only what the code printed: %q", got, want)
	}
	got := found(looked(t, e, "--page-code", "--audit-code"))
	for _, want := range []string{"audit: " + planted + "code", "the call: " + planted + "code", "the call: " + planted + "output"} {
		if !slices.Contains(got, want) {
			t.Errorf("did not find %q among %q", want, got)
		}
	}
	for _, f := range got {
		if where, _, _ := strings.Cut(f, ":"); where != "audit" && where != "the call" {
			t.Errorf("found %s", f)
		}
	}
	e.RequireNone(t, base)
}
