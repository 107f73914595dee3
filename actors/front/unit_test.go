package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/tiktoken-go/tokenizer"
	"github.com/toon-format/toon-go"

	"github.com/thawpool/thawpool/actors"
)

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	in := "a\n\nbb\r\n" + long + "\n" + `{"id":"7","x":"` + long + `"}` + "\nlast"
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytewise": iotest.OneByteReader, "with error": iotest.DataErrReader,
	} {
		r := newLineReader(wrap(strings.NewReader(in)), 200<<10)
		for i, want := range []string{"a", "", "bb\r", long, "!\"7\"", "last"} {
			line, id, err := r.next()
			if e, long := strings.CutPrefix(want, "!"); long {
				if !errors.Is(err, errTooLong) || string(id) != e || line != nil {
					t.Errorf("%s: line %d: id %s, error %v", name, i, id, err)
				}
				continue
			}
			if err != nil || string(line) != want {
				t.Errorf("%s: line %d: %d bytes, want %d, error %v", name, i, len(line), len(want), err)
			}
		}
		for range 2 {
			if _, _, err := r.next(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: end: %v", name, err)
			}
		}
	}
}

func TestIDFinder(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":7}`:                        `7`,
		`{"id" : "a\"b" , "x":1}`:         `"a\"b"`,
		`{"x":{"id":1},"id":2}`:           `2`,
		`{"x":[{"id":1}],"y":"\"id\":3"}`: ``,
		`{"id":{"id":1}}`:                 ``,
		`{"id":[1]}`:                      ``,
		`{"id":null}`:                     ``,
		`{"id":true}`:                     ``,
		`[{"id":1}]`:                      ``,
		`{"ID":1}`:                        ``,
		`{"id":1,"id":2}`:                 `2`,
		`{"a":"}","id":-4}`:               `-4`,
		`{"id":"` + strings.Repeat("x", 300) + `"}`: ``,
		`{"id":5`:  ``,
		``:         ``,
		`}}}]]"id`: ``,
	} {
		var f idFinder
		f.write([]byte(in))
		if string(f.id()) != want {
			t.Errorf("%s: found %s, want %s", in, f.id(), want)
		}
	}
}

// What the finder finds in valid JSON is what the decoder finds.
func FuzzIDFinder(f *testing.F) {
	f.Add([]byte(`{"x":{"id":1},"id":"2\\","y":[1,{"id":3}]}`))
	f.Add([]byte(`{"a" : [ ] , "id":12 }`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var found idFinder
		found.write(in)
		var m map[string]json.RawMessage
		if json.Unmarshal(in, &m) != nil || bytes.Contains(in, []byte(`\u`)) { // a key may be spelt with escapes
			return
		}
		want := m["id"]
		if !validID(want) || len(want) > maxID {
			return
		}
		if !bytes.Equal(found.id(), want) {
			t.Errorf("%s: found %s, want %s", in, found.id(), want)
		}
	})
}

func TestCompact(t *testing.T) {
	one, value := 1, "42"
	for name, tt := range map[string]struct {
		res  actors.Result
		want string
	}{
		"nothing":     {actors.Result{Status: actors.StatusSuccess}, "(no output)"},
		"only stdout": {actors.Result{Status: actors.StatusSuccess, Stdout: "a\nb"}, "a\nb"},
		"only value":  {actors.Result{Status: actors.StatusSuccess, Value: &value}, "42"},
		"all": {actors.Result{Status: actors.StatusError, Stdout: "out", Stderr: "err\n", Value: &value, Notes: []string{"n1", "n2"},
			Error: &actors.RunError{Type: "ValueError", Message: "boom", Traceback: "Traceback:\nValueError: boom\n"}},
			"out\n[stderr]\nerr\n[value] 42\n[error] Traceback:\nValueError: boom\n[note] n1\n[note] n2"},
		"timeout": {actors.Result{Status: actors.StatusTimeout, Stdout: "so far\n",
			Error: &actors.RunError{Type: "Timeout", Message: "ran longer than 1s"}}, "so far\n[timeout] Timeout: ran longer than 1s"},
		"exit": {actors.Result{Status: actors.StatusError, ExitCode: &one}, "[error] exit status 1"},
		"lost": {actors.Result{Status: actors.StatusKilled}, "[killed] ended"},
	} {
		if got := compact(tt.res); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestTOON(t *testing.T) {
	zero, value := 0, "9007199254740993"
	res := actors.Result{Status: actors.StatusError, ExitCode: &zero, Stdout: "a: \"b\"\n- c\n", Value: &value, Notes: []string{"n, 1", "n2"},
		Error: &actors.RunError{Type: "E", Message: "m"}, Receipt: actors.Receipt{RequestID: "secretless"}}
	text := inTOON(res)
	var back map[string]any
	if err := toon.UnmarshalString(text, &back); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if back["stdout"] != res.Stdout || back["value"] != value || back["status"] != "error" {
		t.Errorf("came back as %v from\n%s", back, text)
	}
	if _, ok := back["stderr"]; ok || strings.Contains(text, "secretless") {
		t.Errorf("has what is empty or no text for a model:\n%s", text)
	}
}

// Integers beyond 2^53 are text in both forms of an answer.
func TestBigIntegers(t *testing.T) {
	value := "9007199254740993"
	f, err := New(config(&script{}))
	if err != nil {
		t.Fatal(err)
	}
	line := string(encode(json.RawMessage("1"), f.toResult(actors.Result{Status: actors.StatusSuccess, Value: &value}, ""), nil))
	if !strings.Contains(line, `"value":"9007199254740993"`) || !strings.Contains(line, `"text":"9007199254740993"`) {
		t.Error(line)
	}
}

// With servers, profiles and the longest summary, all that a model gets to see stays below 250 tokens, and the names fit
// where clients add prefixes.
func TestToolsListIsSmall(t *testing.T) {
	cfg := config(&script{})
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("server-%d", i))
	}
	cfg.Servers = func() string { return strings.Join(names, ", ") }
	cfg.Profiles = []string{"default", "data"}
	w := dial(t.Context(), t, cfg).open()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var m struct {
		Result struct {
			Tools json.RawMessage `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(<-w.lines), &m); err != nil {
		t.Fatal(err)
	}
	for _, name := range []tokenizer.Encoding{tokenizer.O200kBase, tokenizer.Cl100kBase} {
		codec, err := tokenizer.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		ids, _, err := codec.Encode(string(m.Result.Tools))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("tools/list has %d tokens (%s)", len(ids), name)
		if len(ids) >= 250 {
			t.Errorf("tools/list has %d tokens (%s):\n%s", len(ids), name, m.Result.Tools)
		}
	}
	var tools []mcp.Tool
	if err := json.Unmarshal(m.Result.Tools, &tools); err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if len(tool.Name) > 30 || strings.Trim(tool.Name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("name %q", tool.Name)
		}
		if a := tool.Annotations; a.DestructiveHint == nil || !*a.DestructiveHint || a.OpenWorldHint == nil || !*a.OpenWorldHint {
			t.Errorf("annotations %+v", a)
		}
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
}

func TestProfile(t *testing.T) {
	cfg := config(&script{})
	cfg.Profiles = []string{"default", "data"}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var req actors.Request
	if err := f.arguments(json.RawMessage(`{"code":"x","profile":"data"}`), &req); err != nil || req.Profile != "data" {
		t.Errorf("%q, %v", req.Profile, err)
	}
	if err := f.arguments(json.RawMessage(`{"code":"x","profile":"other"}`), &req); err == nil ||
		err.Error() != `profile must be one of default, data and is "other"` {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no runner":        func(c *Config) { c.Runner = nil },
		"no timeout":       func(c *Config) { c.Timeout = 0 },
		"timeout over max": func(c *Config) { c.Timeout = c.MaxTimeout + time.Second },
		"unknown mode":     func(c *Config) { c.Mode = "xml" },
	} {
		cfg := config(&script{})
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Output that was cut is a resource for a while: linked where the client knows links, named in the text in any case.
func TestWholeOutput(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for version, links := range map[string]int{"2025-06-18": 1, "2024-11-05": 0} {
			dir := t.TempDir()
			spool, err := NewSpool(dir, 8<<20, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			cfg := config(&script{})
			cfg.Outputs = spool
			w := dial(t.Context(), t, cfg)
			w.send(strings.Replace(hello, "2025-06-18", version, 1))
			w.recv()
			w.send(callLine("1", "flood 3000000"))
			m := w.recv()
			content := m["result"].(map[string]any)["content"].([]any)
			if len(content) != 1+links {
				t.Fatalf("%s: content %v", version, content)
			}
			_, uri, ok := strings.Cut(text(t, m), "[note] all 3000000 bytes of stdout: resource ")
			if !ok {
				t.Fatalf("text %q", text(t, m))
			}
			if links > 0 && content[1].(map[string]any)["uri"] != uri {
				t.Errorf("link %v, text %s", content[1], uri)
			}
			w.send(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"` + uri + `"}}`)
			got := w.recv()["result"].(map[string]any)["contents"].([]any)[0].(map[string]any)["text"].(string)
			if got != strings.Repeat("0123456789abcdef", 3000000/16) {
				t.Errorf("read %d bytes", len(got))
			}
			w.send(`{"jsonrpc":"2.0","id":3,"method":"resources/list"}`)
			if d := match(map[string]any{"resources": []any{map[string]any{"uri": "thawpool://capabilities"}}}, w.recv()["result"], ""); d != "" {
				t.Error(d)
			}
			time.Sleep(2 * time.Minute) // the bubble's clock
			w.send(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"` + uri + `"}}`)
			if d := match(map[string]any{"code": -32002.0, "message": "~for 1m0s"}, w.recv()["error"], ""); d != "" {
				t.Error(d)
			}
			if err := w.close(); err != nil {
				t.Fatal(err)
			}
			spool.Close()
			if names, _ := os.ReadDir(dir); len(names) > 0 {
				t.Errorf("left %v", names)
			}
		}
	})
}

// A batch whose answers are long gets no more of them: what is left is answered with an error.
func TestBatchIsBounded(t *testing.T) {
	spool, err := NewSpool(t.TempDir(), streamMax, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	cfg := config(&script{})
	cfg.Outputs = spool
	w := dial(t.Context(), t, cfg)
	w.send(strings.Replace(hello, "2025-06-18", mcp.ProtocolVersion20250326, 1))
	w.recv()
	w.send(callLine("1", "flood 10000000"))
	_, uri, _ := strings.Cut(text(t, w.recv()), "resource ")
	read := `{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"` + uri + `"}}`
	w.send("[" + strings.Repeat(read+",", 9) + read + "]")
	var answers []struct {
		Result json.RawMessage
		Error  *rpcError
	}
	if err := json.Unmarshal([]byte(<-w.lines), &answers); err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if refused := a.Error != nil && strings.Contains(a.Error.Message, "16 MiB already; send this request by itself"); refused != (i >= 2) {
			t.Errorf("answer %d: %+v", i, a.Error)
		}
	}
	if err := w.close(); err != nil || len(answers) != 10 {
		t.Errorf("%d answers, %v", len(answers), err)
	}
}

func TestSpoolBounds(t *testing.T) {
	now := time.Unix(0, 0)
	s, err := NewSpool(t.TempDir(), 1<<20, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.now = func() time.Time { return now }
	put := func(id string, n int) {
		r := s.Record(id)
		r.Write(2, bytes.Repeat([]byte(id[:1]), n))
		r.Write(3, []byte("no such stream"))
		r.Keep()
		r.Drop() // changes nothing any more
	}
	put("a", 600<<10)
	put("b", 100<<10)
	if n, whole := s.Kept("a", "stderr"); n != 600<<10 || !whole {
		t.Errorf("a: %d %v", n, whole)
	}
	put("c", 400<<10) // a must go
	if n, _ := s.Kept("a", "stderr"); n != 0 {
		t.Error("a is still there")
	}
	if data, ok, err := s.Read("c", "stderr"); err != nil || !ok || !bytes.Equal(data, bytes.Repeat([]byte("c"), 400<<10)) {
		t.Errorf("c: %d bytes, %v, %v", len(data), ok, err)
	}
	if _, ok, _ := s.Read("c", "stdout"); ok {
		if data, _, _ := s.Read("c", "stdout"); len(data) != 0 {
			t.Error("c has stdout")
		}
	}
	dropped := s.Record("d")
	dropped.Write(1, make([]byte, 100<<10))
	dropped.Drop()
	if s.used != 500<<10 {
		t.Errorf("%d bytes used", s.used)
	}
	over := s.Record("e") // cannot be kept whole, whatever goes
	over.Write(1, make([]byte, 900<<10))
	over.Write(1, make([]byte, 200<<10))
	over.Write(1, make([]byte, 1))
	over.Keep()
	if n, whole := s.Kept("e", "stdout"); n != 900<<10 || whole {
		t.Errorf("e: %d %v", n, whole)
	}
	for i := range keptMax + 5 {
		put(fmt.Sprintf("x%d", i), 1)
	}
	if len(s.kept) != keptMax {
		t.Errorf("%d kept", len(s.kept))
	}
	now = now.Add(time.Hour)
	if _, ok, _ := s.Read("x0", "stderr"); ok || s.used != 0 {
		t.Errorf("after its time: %v, %d bytes used", ok, s.used)
	}
}

func TestSpoolCutsNoCharacterInTwo(t *testing.T) {
	s, err := NewSpool(t.TempDir(), 2*streamMax, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := s.Record("a")
	r.Write(1, []byte("x"+strings.Repeat("ä", streamMax/2)))
	r.Write(2, []byte("whole, and no text: \xc3"))
	r.Keep()
	data, ok, err := s.Read("a", "stdout")
	if err != nil || !ok || len(data) != streamMax-1 || !utf8.Valid(data) {
		t.Errorf("%d bytes, %v, %v", len(data), ok, err)
	}
	if data, _, _ := s.Read("a", "stderr"); !bytes.HasSuffix(data, []byte("\xc3")) {
		t.Errorf("%q", data)
	}
}
