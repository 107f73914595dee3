package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

const token = "tok3n-that-nobody-may-see"

func httpConfig(url string) Config {
	return Config{
		Name: "far", Kind: KindHTTP, URL: url, Log: zerolog.Nop(), Version: "test",
		Headers: map[string]string{"Authorization": "Bearer " + token, "X-Api-Key": token},
	}
}

// peer is a hand-written streamable HTTP server, so that it can misbehave.
type peer struct {
	mu       sync.Mutex
	session  string // the only one it knows; empty means none
	sessions int
	requests []*http.Request
	bodies   []string
	answer   func(w http.ResponseWriter, r *http.Request, id json.RawMessage, body string) bool // true when it has answered
	unknown  int                                                                                // status for an unknown session
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(raw, &m)
	p.mu.Lock()
	p.requests = append(p.requests, r.Clone(context.Background()))
	p.bodies = append(p.bodies, string(raw))
	known := p.session != "" && r.Header.Get("Mcp-Session-Id") == p.session
	if m.Method == "initialize" {
		p.sessions++
		p.session = fmt.Sprintf("session-%d", p.sessions)
		w.Header().Set("Mcp-Session-Id", p.session)
	}
	answer := p.answer
	p.mu.Unlock()
	switch {
	case answer != nil && answer(w, r, m.ID, string(raw)):
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete:
	case m.Method == "initialize":
		reply(w, m.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}`)
	case !known:
		http.Error(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`, p.unknown)
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "tools/list":
		reply(w, m.ID, `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`)
	default:
		reply(w, m.ID, `{"content":[],"structuredContent":{"id":1915883588174806058}}`)
	}
}

func reply(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (p *peer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *peer) count(what string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.bodies {
		if strings.Contains(b, what) {
			n++
		}
	}
	return n
}

func newPeer(t *testing.T) (*peer, string) {
	t.Helper()
	p := &peer{unknown: http.StatusNotFound}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, s.URL + "/mcp"
}

// refusing answers calls with a status.
func refusing(status int, header, value, body string) func(http.ResponseWriter, *http.Request, json.RawMessage, string) bool {
	return func(w http.ResponseWriter, r *http.Request, _ json.RawMessage, sent string) bool {
		if !strings.Contains(sent, "tools/call") {
			return false
		}
		if header != "" {
			w.Header().Set(header, value)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
		return true
	}
}
