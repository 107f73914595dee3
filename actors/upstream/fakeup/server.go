package fakeup

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

type server struct {
	script Script

	mu      sync.Mutex // guards what follows, and stdout
	tools   []json.RawMessage
	running int
	peak    int
	writes  int
	pending map[string]chan struct{} // calls in progress; closed when cancelled
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Cursor    *string         `json:"cursor"`
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// Main is the server. It does not return.
func Main() {
	s := &server{pending: map[string]chan struct{}{}}
	if err := json.Unmarshal([]byte(os.Getenv(Variable)), &s.script); err != nil {
		fmt.Fprintln(os.Stderr, "script:", err)
		os.Exit(2)
	}
	s.tools = s.script.Tools
	if s.tools == nil {
		s.tools = Builtin()
	}
	s.journal("start " + fmt.Sprint(os.Getpid()))
	fmt.Fprint(os.Stderr, s.script.Stderr)
	if s.script.Exit != nil {
		os.Exit(*s.script.Exit)
	}
	if s.script.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	s.noise()
	if s.script.Chatter > 0 {
		go s.chatter()
	}
	s.serve()
	s.journal("eof")
	if s.script.IgnoreTerm {
		select {}
	}
	os.Exit(0)
}

func (s *server) serve() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		s.journal(strings.TrimSpace(string(line[:min(len(line), 4096)])))
		s.take(m)
		if s.script.Deaf && m.Method == "tools/list" {
			select {}
		}
	}
}

func (s *server) take(m message) {
	switch m.Method {
	case "initialize":
		s.initialize(m)
	case "tools/list":
		time.Sleep(s.script.ListDelay)
		s.list(m)
	case "tools/call":
		cancelled := make(chan struct{})
		s.mu.Lock()
		s.pending[string(m.ID)] = cancelled
		s.mu.Unlock()
		go func() {
			s.call(m, cancelled)
			s.mu.Lock()
			delete(s.pending, string(m.ID))
			s.mu.Unlock()
		}()
	case "notifications/cancelled":
		s.mu.Lock()
		if c := s.pending[string(m.Params.RequestID)]; c != nil {
			delete(s.pending, string(m.Params.RequestID))
			close(c)
		}
		s.mu.Unlock()
	case "ping":
		s.answer(m.ID, `{}`)
	default:
		if m.ID != nil && m.Method != "" {
			s.fail(m.ID, -32601, "no such method")
		}
	}
}

func (s *server) initialize(m message) {
	switch {
	case s.script.InitNever:
	case s.script.InitError != "":
		s.fail(m.ID, -32000, s.script.InitError)
	default:
		time.Sleep(s.script.InitDelay)
		name := s.script.Name
		if name == "" {
			name = "fake"
		}
		raw, _ := json.Marshal(map[string]any{
			"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo":   map[string]any{"name": name, "version": s.script.Version},
			"instructions": s.script.Instructions,
		})
		s.answer(m.ID, string(raw))
	}
}

func (s *server) list(m message) {
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	size := s.script.PageSize
	if size == 0 {
		size = max(len(tools), 1)
	}
	page := 0
	if c := m.Params.Cursor; c != nil {
		if *c == "" {
			page = 1
		} else {
			_, _ = fmt.Sscanf(*c, "page%d", &page)
		}
	}
	next := fmt.Sprintf(`,"nextCursor":"page%d"`, page+1)
	if (page+1)*size >= len(tools) {
		next = ""
	}
	switch {
	case s.script.Cursors == "empty" && page == 0:
		next = `,"nextCursor":""`
	case s.script.Cursors == "circle":
		next = `,"nextCursor":"page0"`
	case s.script.Cursors == "endless":
		next = fmt.Sprintf(`,"nextCursor":"page%d"`, page+1)
	}
	part := tools[min(page*size, len(tools)):min((page+1)*size, len(tools))]
	raw, _ := json.Marshal(part)
	if part == nil {
		raw = []byte("[]")
	}
	s.answer(m.ID, `{"tools":`+string(raw)+next+`}`)
}

// call does what the tools of Builtin say. Any other tool answers with its own name.
func (s *server) call(m message, cancelled <-chan struct{}) {
	var a struct {
		Text   string            `json:"text"`
		MS     int               `json:"ms"`
		Code   int               `json:"code"`
		Words  string            `json:"words"`
		Bytes  int               `json:"bytes"`
		Line   string            `json:"line"`
		Setsid bool              `json:"setsid"`
		Tools  []json.RawMessage `json:"tools"`
		Times  int               `json:"times"`
	}
	_ = json.Unmarshal(m.Params.Arguments, &a)
	switch m.Params.Name {
	case "echo":
		s.structured(m.ID, string(m.Params.Arguments))
	case "get_id":
		s.structured(m.ID, `{"id":1915883588174806058}`)
	case "env":
		raw, _ := json.Marshal(os.Environ())
		s.structured(m.ID, `{"env":`+string(raw)+`}`)
	case "sleep":
		select {
		case <-time.After(time.Duration(a.MS) * time.Millisecond):
			s.text(m.ID, "slept", false)
		case <-cancelled:
			s.journal("gave up " + string(m.ID))
			s.text(m.ID, "late", false)
		}
	case "never":
	case "crash":
		fmt.Fprint(os.Stderr, a.Words)
		os.Exit(a.Code)
	case "fail":
		raw, _ := json.Marshal(a.Text)
		s.answer(m.ID, `{"isError":true,"content":[{"type":"text","text":`+string(raw)+`}],"structuredContent":{"n":"no integer"}}`)
	case "blocks":
		s.answer(m.ID, `{"content":[{"type":"text","text":"one"},{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"},`+
			`{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"},{"type":"resource","resource":{"uri":"x://blob","mimeType":"application/octet-stream","blob":"AAEC"}},`+
			`{"type":"resource_link","uri":"x://link","name":"link"},{"type":"text","text":"two"}]}`)
	case "big":
		s.text(m.ID, strings.Repeat("x", a.Bytes), false)
	case "raw":
		s.write(strings.ReplaceAll(a.Line, "ID", string(m.ID)))
	case "rpc_error":
		s.fail(m.ID, -32602, "quota exceeded for token s3cr3t-value")
	case "spawn":
		s.spawn(m.ID, a.Setsid)
	case "close_stdout":
		_ = os.Stdout.Close()
	case "change":
		s.mu.Lock()
		s.tools = a.Tools
		s.mu.Unlock()
		for range max(a.Times, 1) {
			s.write(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		s.text(m.ID, "changed", false)
	case "busy":
		s.busy(m.ID, time.Duration(a.MS)*time.Millisecond)
	case "write":
		s.mu.Lock()
		s.writes++
		n := s.writes
		s.mu.Unlock()
		s.structured(m.ID, fmt.Sprintf(`{"writes":%d}`, n))
	default:
		s.text(m.ID, m.Params.Name, false)
	}
}

func (s *server) spawn(id json.RawMessage, setsid bool) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
	cmd.Stdout = os.Stdout // holds the pipe open
	if err := cmd.Start(); err != nil {
		s.text(id, err.Error(), true)
		return
	}
	s.structured(id, fmt.Sprintf(`{"pid":%d}`, cmd.Process.Pid))
}

func (s *server) busy(id json.RawMessage, d time.Duration) {
	s.mu.Lock()
	s.running++
	s.peak = max(s.peak, s.running)
	s.mu.Unlock()
	time.Sleep(d)
	s.mu.Lock()
	s.running--
	peak := s.peak
	s.mu.Unlock()
	s.structured(id, fmt.Sprintf(`{"peak":%d,"pid":%d}`, peak, os.Getpid()))
}

func (s *server) structured(id json.RawMessage, value string) {
	text, _ := json.Marshal(value)
	s.answer(id, `{"content":[{"type":"text","text":`+string(text)+`}],"structuredContent":`+value+`}`)
}

func (s *server) text(id json.RawMessage, text string, isError bool) {
	raw, _ := json.Marshal(text)
	s.answer(id, fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"isError":%t}`, raw, isError))
}

func (s *server) answer(id json.RawMessage, result string) {
	s.noise()
	s.write(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

func (s *server) fail(id json.RawMessage, code int, message string) {
	raw, _ := json.Marshal(message)
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, raw))
}

// noise is what the script wants between messages.
func (s *server) noise() {
	for _, l := range s.script.Lines {
		if n := 0; strings.HasPrefix(l, "repeat ") {
			_, _ = fmt.Sscanf(l, "repeat %d", &n)
			l = strings.Repeat("x", n)
		}
		s.write(l)
	}
	if s.script.Flood > 0 {
		_, _ = os.Stderr.Write(bytes.Repeat([]byte("e"), s.script.Flood))
	}
}

func (s *server) chatter() {
	for range time.Tick(s.script.Chatter) {
		s.write(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + strings.Repeat("chatter ", 100) + `"}}`)
	}
}

func (s *server) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = os.Stdout.WriteString(line + "\n")
}

func (s *server) journal(line string) {
	if s.script.Journal == "" {
		return
	}
	f, err := os.OpenFile(s.script.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString(line + "\n")
}
