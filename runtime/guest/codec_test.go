package guest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(r *Reader) (frames []Frame, err error) {
	for {
		f, err := r.Next()
		if err != nil {
			return frames, err
		}
		kept := *f
		kept.Data = bytes.Clone(f.Data)
		frames = append(frames, kept)
	}
}

func TestReaderTakesEveryKind(t *testing.T) {
	t.Parallel()
	lines := `{"t":"ready","v":1,"python":"3.14.6"}
{"t":"out","fd":1,"d":"a\nb\u00e9\ud83d\ude00\"\\\/\b\f\r\t"}
{"t":"out","fd":2,"b":"AAH/"}
{"t":"out","fd":2,"d":""}
{"t":"call","id":18446744073709551615,"verb":"tools.call","args":{"n":9007199254740993}}
{"t":"cancel","id":2}
{"t":"done","value":"7","error":null,"notes":["n"]}
{"t":"done","value":null,"error":{"type":"E","message":"m","traceback":"t"},"notes":[]}
{"t":"exit","code":0}
{"t":"exit","signal":11}
{"t":"exit","code":1,"reason":"why"}
`
	for name, src := range map[string]io.Reader{
		"at once":      strings.NewReader(lines),
		"byte by byte": iotest.OneByteReader(strings.NewReader(lines)),
	} {
		frames, err := readAll(NewReader(src))
		if err != io.EOF || len(frames) != 11 {
			t.Fatalf("%s: %d frames, %v", name, len(frames), err)
		}
		if f := frames[0]; f.Version != 1 || f.Python != "3.14.6" {
			t.Errorf("ready: %+v", f)
		}
		if f := frames[1]; f.FD != 1 || string(f.Data) != "a\nbé😀\"\\/\b\f\r\t" {
			t.Errorf("out: %d %q", f.FD, f.Data)
		}
		if f := frames[2]; f.FD != 2 || string(f.Data) != "\x00\x01\xff" {
			t.Errorf("out in base64: %d %q", f.FD, f.Data)
		}
		if f := frames[4]; f.ID != 1<<64-1 || f.Verb != VerbCall || string(f.Args) != `{"n":9007199254740993}` {
			t.Errorf("call: %+v", f)
		}
		if f := frames[6]; *f.Value != "7" || f.Error != nil || f.Notes[0] != "n" {
			t.Errorf("done: %+v", f)
		}
		if f := frames[7]; f.Value != nil || *f.Error != (Error{"E", "m", "t"}) {
			t.Errorf("done with error: %+v", f)
		}
		if frames[8].Code != 0 || frames[9].Code != -1 || frames[9].Signal != 11 || frames[10].Reason != "why" {
			t.Errorf("exit: %+v", frames[8:])
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"no JSON":           `hello`,
		"empty line":        ``,
		"other JSON":        `[]`,
		"null":              `null`,
		"unknown kind":      `{"t":"result"}`,
		"kind of the host":  `{"t":"run"}`,
		"kind not first":    `{"fd":1,"t":"out","d":"x"}`,
		"kind twice":        `{"t":"call","id":1,"t":"exit","code":0}`,
		"cut":               `{"t":"exit","code":0`,
		"more behind":       `{"t":"exit","code":0}{"t":"exit","code":0}`,
		"out of fd 3":       `{"t":"out","fd":3,"d":"x"}`,
		"out of both":       `{"t":"out","fd":1,"d":"x","b":"AA=="}`,
		"out of nothing":    `{"t":"out","fd":1}`,
		"raw quote":         `{"t":"out","fd":1,"d":"a"b"}`,
		"raw control":       "{\"t\":\"out\",\"fd\":1,\"d\":\"a\x01b\"}",
		"bad escape":        `{"t":"out","fd":1,"d":"\x"}`,
		"cut escape":        `{"t":"out","fd":1,"d":"\u12"}`,
		"no UTF-8":          "{\"t\":\"out\",\"fd\":1,\"d\":\"\xff\"}",
		"bad base64":        `{"t":"out","fd":1,"b":"*"}`,
		"call without id":   `{"t":"call","verb":"x","args":{}}`,
		"negative id":       `{"t":"cancel","id":-1}`,
		"huge id":           `{"t":"cancel","id":18446744073709551616}`,
		"fraction":          `{"t":"cancel","id":1.5}`,
		"exit of both":      `{"t":"exit","code":1,"signal":2}`,
		"exit of neither":   `{"t":"exit"}`,
		"other version":     `{"t":"ready","v":2}`,
		"value of no str":   `{"t":"done","value":7}`,
		"nested too deeply": `{"t":"call","id":1,"verb":"x","args":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
		"nested, not ended": `{"t":"call","id":1,"verb":"x","args":` + strings.Repeat("[", 1<<20),
	} {
		frames, err := readAll(NewReader(strings.NewReader(line + "\n")))
		if len(frames) != 0 || !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %d frames, %v", name, len(frames), err)
		}
	}
}

func TestReaderLoneSurrogate(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`\ud800`: "\ufffd", `\udc00x`: "\ufffdx", `\ud800\u0041`: "\ufffdA", `\ud800\ud800\udc00`: "\ufffd\U00010000", `\ud83d\n`: "\ufffd\n",
	} {
		f, err := NewReader(strings.NewReader(`{"t":"out","fd":1,"d":"` + in + `"}` + "\n")).Next()
		if err != nil || string(f.Data) != want {
			t.Errorf("%s: %q, %v", in, f.Data, err)
		}
	}
}

func TestReaderBounds(t *testing.T) {
	t.Parallel()
	frame := func(n int) string { // of n bytes
		const around = len(`{"t":"out","fd":1,"d":""}` + "\n")
		return `{"t":"out","fd":1,"d":"` + strings.Repeat("x", n-around) + `"}` + "\n"
	}
	for _, n := range []int{100, 1000, initialBuffer, 3 * initialBuffer, 2 << 20} {
		frames, err := readAll(NewReader(strings.NewReader(frame(n)+frame(50)), WithFrameMax(n)))
		if err != io.EOF || len(frames) != 2 || frames[0].Size != n {
			t.Errorf("%d bytes of %d: %d frames, %v", n, n, len(frames), err)
		}
		_, err = readAll(NewReader(strings.NewReader(frame(n)), WithFrameMax(n-1)))
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%d bytes of %d: %v", n, n-1, err)
		}
	}
	endless := NewReader(endlessX{}, WithFrameMax(1<<20))
	if _, err := endless.Next(); !errors.Is(err, ErrProtocol) {
		t.Errorf("a line without end: %v", err)
	}
	if len(endless.buf) > 2<<20 {
		t.Errorf("a line without end took %d bytes", len(endless.buf))
	}
}

// endlessX is a line of x that never ends.
type endlessX struct{}

func (endlessX) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestReaderGivesBackTheBufferOfAHugeFrame(t *testing.T) {
	t.Parallel()
	big := `{"t":"done","value":"` + strings.Repeat("x", 4<<20) + `"}` + "\n"
	r := NewReader(strings.NewReader(big + `{"t":"exit","code":0}` + "\n"))
	if _, err := readAll(r); err != io.EOF {
		t.Fatal(err)
	}
	if len(r.buf) > initialBuffer {
		t.Errorf("%d bytes are kept", len(r.buf))
	}
}

func TestReaderEnds(t *testing.T) {
	t.Parallel()
	if _, err := NewReader(strings.NewReader("")).Next(); err != io.EOF {
		t.Error(err)
	}
	if _, err := NewReader(strings.NewReader(`{"t":"ex`)).Next(); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	broken := errors.New("broken")
	if _, err := NewReader(iotest.ErrReader(broken)).Next(); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := NewReader(emptyReads{}).Next(); err != io.ErrNoProgress {
		t.Error(err)
	}
}

type emptyReads struct{}

func (emptyReads) Read([]byte) (int, error) { return 0, nil }

func TestReaderAdmit(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	var kinds []Kind
	total := 0
	r := NewReader(strings.NewReader(strings.Repeat(`{"t":"out","fd":1,"d":"x"}`+"\n", 5)+"junk\n"), WithAdmit(func(k Kind, size int) error {
		if total += size; total > 4*27 {
			return enough
		}
		kinds = append(kinds, k)
		return nil
	}))
	if frames, err := readAll(r); len(frames) != 4 || !errors.Is(err, enough) || len(kinds) != 4 || kinds[0] != KindOut {
		t.Error(len(frames), err, kinds)
	}
}

func TestWriterRun(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.Run(Run{ID: "r", Code: "print('<é>')\n", ValueMax: 9}); err != nil {
		t.Fatal(err)
	}
	want := `{"t":"run","id":"r","code":"print('<é>')\n","value_max":9,"servers":[],"saved":[]}` + "\n"
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}

func TestWriterReply(t *testing.T) {
	t.Parallel()
	huge := json.RawMessage(`"` + strings.Repeat("x", FrameMax) + `"`)
	for _, c := range []struct {
		name  string
		value json.RawMessage
		fault *CallError
		want  string
	}{
		{"value", json.RawMessage("{\n \"n\": 9007199254740993\n}"), nil, `{"t":"reply","id":7,"value":{"n":9007199254740993}}`},
		{"nothing", nil, nil, `{"t":"reply","id":7,"value":null}`},
		{"error", nil, &CallError{ErrKey, "no\nkey"}, `{"t":"reply","id":7,"error":{"type":"KeyError","message":"no\nkey"}}`},
		{"no JSON", json.RawMessage("{"), nil, `"error":{"type":"","message":"the answer is no valid JSON: `},
		{"too large", huge, nil, `"message":"the answer takes 16777218 bytes; at most 16777216 can be passed on: ask for less"`},
	} {
		var b bytes.Buffer
		if err := NewWriter(&b).Reply(7, c.value, c.fault); err != nil {
			t.Fatal(err)
		}
		line, rest, _ := strings.Cut(b.String(), "\n")
		if !strings.Contains(line, c.want) || rest != "" || !json.Valid([]byte(line)) {
			t.Errorf("%s: %.200s", c.name, b.String())
		}
	}
}

func TestFilesAndDigest(t *testing.T) {
	t.Parallel()
	if _, err := fs.Stat(Files(), "runner.py"); err != nil {
		t.Error(err)
	}
	count := 0
	err := fs.WalkDir(Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			count++
			if !strings.HasSuffix(name, ".py") || strings.Contains(name, "test") {
				t.Errorf("%s does not belong into an image", name)
			}
		}
		return err
	})
	if err != nil || count < 10 {
		t.Error(count, err)
	}
	if first, again := Digest(), Digest(); len(first) != 64 || first != again {
		t.Error(Digest())
	}
}

// FuzzReader checks that whatever a sandbox sends is either refused or a frame that encoding/json understands the same.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		`{"t":"out","fd":1,"d":"a\n\u00e9\ud83d\ude00"}`, `{"t":"out","fd":2,"b":"AAH/"}`, `{"t":"call","id":1,"verb":"v","args":{"a":[1]}}`,
		`{"t":"done","value":"x","error":{"type":"E"},"notes":["n"]}`, `{"t":"exit","signal":9}`, `{"t":"ready","v":1,"python":"3"}`,
		`{"t":"out","fd":1,"d":"\ud800\"\\"}`, `{"t":"cancel","id":3}`, "\xff\n{}", `{"t":"out","fd":1,"d":"` + "\n",
	} {
		f.Add([]byte(seed + "\n" + seed + "\n"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole, wholeErr := readAll(NewReader(bytes.NewReader(data), WithFrameMax(1<<16)))
		pieces, piecesErr := readAll(NewReader(iotest.OneByteReader(bytes.NewReader(data)), WithFrameMax(1<<16)))
		if len(whole) != len(pieces) || (wholeErr == io.EOF) != (piecesErr == io.EOF) {
			t.Fatalf("%d frames, %v; in pieces %d, %v", len(whole), wholeErr, len(pieces), piecesErr)
		}
		rest := data
		for _, frame := range whole {
			line, after, _ := bytes.Cut(rest, []byte("\n"))
			rest = after
			compareWithJSON(t, line, &frame)
		}
	})
}

func compareWithJSON(t *testing.T, line []byte, frame *Frame) {
	t.Helper()
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		t.Fatalf("%q was taken: %v", line, err)
	}
	if w.T != frame.Kind {
		t.Fatalf("%q is no %s", line, frame.Kind)
	}
	if frame.Kind != KindOut {
		return
	}
	var want []byte
	if w.D != nil {
		want = []byte(*w.D)
	} else {
		want, _ = base64.StdEncoding.DecodeString(*w.B)
	}
	if w.FD != frame.FD || !bytes.Equal(want, frame.Data) {
		t.Fatalf("%q gave %q", line, frame.Data)
	}
}

// BenchmarkReaderOut reads frames of full payload: prose with newlines, as most output is.
func BenchmarkReaderOut(b *testing.B) {
	text := strings.Repeat("the quick brown fox jumps over the lazy dog, 12345\\n", PayloadMax/50)
	line := []byte(`{"t":"out","fd":1,"d":"` + text + `"}` + "\n")
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	r := NewReader(&repeat{line: line})
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReaderSmall reads frames of one short line each.
func BenchmarkReaderSmall(b *testing.B) {
	line := []byte(`{"t":"out","fd":1,"d":"line 12345\n"}` + "\n")
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	r := NewReader(&repeat{line: bytes.Repeat(line, 1000)})
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// repeat is the same bytes again and again.
type repeat struct {
	line []byte
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.line[r.at:])
	r.at = (r.at + n) % len(r.line)
	return n, nil
}
