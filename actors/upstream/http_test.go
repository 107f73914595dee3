package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/mark3labs/mcp-go/server/servertest"
)

func TestHTTPCallsWithHeadersAndExactIntegers(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	c := dial(t, httpConfig(url))
	if raw := mustCall(t, c, "t", `{"big":9007199254740993}`); !strings.Contains(raw, `"id":1915883588174806058`) {
		t.Error(raw)
	}
	if p.count(`"big":9007199254740993`) != 1 {
		t.Error("the argument was not exact")
	}
	if c.Info().Name != "peer" || c.PID() != 0 || c.Stderr() != "" {
		t.Errorf("%+v", c.Info())
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	deleted := false
	for _, r := range p.requests {
		if r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("X-Api-Key") != token {
			t.Errorf("%s without the entry's headers", r.Method)
		}
		deleted = deleted || r.Method == http.MethodDelete
	}
	if !deleted {
		t.Error("the session was not ended")
	}
}

func TestForgottenSession(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			p, url := newPeer(t)
			p.unknown = status
			c := dial(t, httpConfig(url))
			mustCall(t, c, "t", `{}`)
			p.set(func() { p.session = "" })
			mustCall(t, c, "t", `{}`)
			p.set(func() { p.session = "" })
			if tools, _, err := c.ListTools(t.Context()); err != nil || len(tools) != 1 {
				t.Errorf("list: %d tools, %v", len(tools), err)
			}
			p.set(func() { p.session = "" })
			before := p.count(`"initialize"`)
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if _, err := c.CallTool(t.Context(), "t", nil); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := p.count(`"initialize"`) - before; n != 1 {
				t.Errorf("%d new sessions for one that was lost", n)
			}
			select {
			case <-c.Changed():
			default:
				t.Error("nobody is told to list the tools again")
			}
		})
	}
}

func TestSessionThatIsNeverKnownIsNoStorm(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	c := dial(t, httpConfig(url))
	p.set(func() {
		p.answer = func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage, body string) bool {
			if strings.Contains(body, "tools/call") {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return false
		}
	})
	if _, err := call(t, c, "t", `{}`); err == nil {
		t.Error("no error")
	}
	if n := p.count("tools/call"); n != 2 {
		t.Errorf("called %d times", n)
	}
}

func TestHTTPAnswersAreBounded(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	cfg := httpConfig(url)
	cfg.MaxMessage = 64 << 10
	c := dial(t, cfg)
	for _, stream := range []bool{false, true} {
		p.set(func() {
			p.answer = func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, body string) bool {
				if !strings.Contains(body, "tools/call") {
					return false
				}
				big := strings.Repeat("x", 200_000)
				if stream {
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"x\":\"%s\"}}\n\n", id, big)
				} else {
					reply(w, id, `{"x":"`+big+`"}`)
				}
				return true
			}
		})
		if _, err := call(t, c, "t", `{}`); !errors.Is(err, ErrTooLarge) {
			t.Errorf("stream %t: %v", stream, err)
		}
	}
	p.set(func() { // many small events in one long stream are fine
		p.answer = func(w http.ResponseWriter, _ *http.Request, id json.RawMessage, body string) bool {
			if !strings.Contains(body, "tools/call") {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for range 2000 {
				fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":\""+strings.Repeat("y", 60)+"\"}}\r\n\r\n")
			}
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", id)
			return true
		}
	})
	mustCall(t, c, "t", `{}`)
}

func TestHTTPCallsAreCancelledAtTheServer(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	p.answer = func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage, body string) bool {
		if !strings.Contains(body, "tools/call") {
			return false
		}
		close(arrived)
		select {
		case <-r.Context().Done():
		case <-release:
		}
		return true
	}
	c := dial(t, httpConfig(url))
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, "t", nil)
		result <- err
	}()
	<-arrived
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for deadline := time.Now().Add(patience); p.count(methodCancelled) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the server was not told")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func TestCloseFailsHTTPCallsInFlight(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	p.answer = func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage, body string) bool {
		if !strings.Contains(body, "tools/call") {
			return false
		}
		close(arrived)
		select {
		case <-r.Context().Done():
		case <-release:
		}
		return true
	}
	c := dial(t, httpConfig(url))
	result := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "t", nil)
		result <- err
	}()
	<-arrived
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
}

// library is a server of mcp-go itself.
func library() *server.MCPServer {
	s := server.NewMCPServer("library", "3", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	return s
}

func TestStreamableServerOfTheLibrary(t *testing.T) {
	t.Parallel()
	s := library()
	web := servertest.NewTestStreamableHTTPServer(s)
	t.Cleanup(web.Close)
	c := dial(t, httpConfig(web.URL))
	if raw := mustCall(t, c, "echo", `{"text":"hi"}`); !strings.Contains(raw, `"hi"`) {
		t.Error(raw)
	}
	heard := make(chan struct{})
	go func() {
		<-c.Changed()
		close(heard)
	}()
	for i := 0; ; i++ { // the stream of notifications opens beside the calls
		s.AddTool(mcp.NewTool(fmt.Sprintf("more%d", i)), nil)
		select {
		case <-heard:
			return
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the change was not heard")
		}
		if i > 1000 {
			t.Fatal("the change was not heard")
		}
	}
}

func TestOlderSSEServer(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{KindSSE, KindHTTP} { // the second finds out by itself
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			web := servertest.NewTestServer(library())
			t.Cleanup(web.Close)
			cfg := httpConfig(web.URL + "/sse")
			cfg.Kind = kind
			c := dial(t, cfg)
			if raw := mustCall(t, c, "echo", `{"text":"hi"}`); !strings.Contains(raw, `"hi"`) {
				t.Error(raw)
			}
			web.CloseClientConnections()
			select {
			case <-c.Done():
			case <-time.After(patience):
				t.Fatal("the loss was not noticed")
			}
			if _, err := call(t, c, "echo", `{}`); !errors.Is(err, ErrLost) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestServerOfTheLaterRevisionOnly(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	p.answer = func(w http.ResponseWriter, r *http.Request, id json.RawMessage, body string) bool {
		var m struct {
			Method string
			Params struct {
				Meta map[string]any `json:"_meta"`
			}
		}
		_ = json.Unmarshal([]byte(body), &m)
		switch {
		case r.Method == http.MethodGet || m.Method == "subscriptions/listen":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Params.Meta["io.modelcontextprotocol/protocolVersion"] == nil:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no initialize"}}`, id)
		case m.Method == "server/discover":
			reply(w, id, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"late","version":"9"}}}`)
		case m.Method == "tools/list":
			reply(w, id, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
		default:
			if strings.Contains(body, "ask me") {
				reply(w, id, `{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"sure?"}}}}`)
				return true
			}
			reply(w, id, `{"content":[{"type":"text","text":"later"}]}`)
		}
		return true
	}
	c := dial(t, httpConfig(url))
	if c.Info().Protocol != "2026-07-28" {
		t.Errorf("%+v", c.Info())
	}
	if raw := mustCall(t, c, "t", `{"n":9007199254740993}`); !strings.Contains(raw, "later") || p.count("9007199254740993") != 1 {
		t.Error(raw)
	}
	if _, err := call(t, c, "t", `{"text":"ask me"}`); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "ask the user") {
		t.Errorf("got %v", err)
	}
}
