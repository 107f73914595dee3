package front

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// step is one line of a transcript.
type step struct {
	Note  string          `json:"#"`
	C     json.RawMessage `json:"c"`     // the client sends this
	Raw   *string         `json:"raw"`   // the client sends this text
	B64   string          `json:"b64"`   // the client sends these bytes
	S     any             `json:"s"`     // the server's next line matches this
	Quiet bool            `json:"quiet"` // the server says nothing while all wait
	Sleep float64         `json:"sleep"` // seconds pass
}

// Each transcript is one session, replayed with a clock of its own. The names say which cases they hold.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			steps := readTranscript(t, file)
			bubble(t, func(t *testing.T) { replay(t, steps) })
		})
	}
}

func readTranscript(t *testing.T, file string) (steps []step) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		d := json.NewDecoder(strings.NewReader(sc.Text()))
		d.DisallowUnknownFields()
		var s step
		if err := d.Decode(&s); err != nil {
			t.Fatalf("%s:%d: %v", file, n, err)
		}
		steps = append(steps, s)
	}
	return steps
}

func replay(t *testing.T, steps []step) {
	w := dial(t.Context(), t, config(&script{}))
	for i, s := range steps {
		switch {
		case s.C != nil:
			w.send(string(s.C))
		case s.Raw != nil:
			w.send(*s.Raw)
		case s.B64 != "":
			b, err := base64.StdEncoding.DecodeString(s.B64)
			if err != nil {
				t.Fatal(err)
			}
			w.send(string(b))
		case s.Sleep > 0:
			time.Sleep(time.Duration(s.Sleep * float64(time.Second))) // the bubble's clock
		case s.Quiet:
			synctest.Wait()
			select {
			case line := <-w.lines:
				t.Fatalf("step %d: the server said %s", i+1, line)
			default:
			}
		case s.S != nil:
			line, ok := <-w.lines
			if !ok {
				t.Fatalf("step %d: the session ended", i+1)
			}
			var got any
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatalf("step %d: the server wrote %q: %v", i+1, line, err)
			}
			if d := match(s.S, got, ""); d != "" {
				t.Fatalf("step %d: %s\nin %s", i+1, d, line)
			}
		}
	}
	if err := w.close(); err != nil {
		t.Fatalf("Serve: %v", err)
	}
	for line := range w.lines {
		t.Errorf("left over: %s", line)
	}
}
