package front

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Whatever a client sends, every line that comes back is JSON-RPC, the session ends by itself with its input, and a ping
// at the end is answered.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		hello, callLine("1", "x"), callLine(`"1"`, "panic"), "null", "[]", "[[]]", "{", "\xff\xfe", `{"jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python","arguments":{"code":"x","timeout":"9"},"_meta":{"progressToken":0}}}`,
		strings.Replace(hello, "2025-06-18", "2025-03-26", 1) + "\n" + `[{"jsonrpc":"2.0","id":1,"method":"ping"},5]`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"thawpool://output/a/stdout"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		cfg := config(&script{})
		cfg.MaxMessage = 4 << 10
		cfg.Drain = time.Millisecond
		front, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		input := string(in) + "\n" + `{"jsonrpc":"2.0","id":"the last","method":"ping"}`
		if err := front.Serve(t.Context(), strings.NewReader(input), &out); err != nil {
			t.Fatal(err)
		}
		pinged := false
		for line := range bytes.Lines(out.Bytes()) {
			var m any
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatalf("wrote %q: %v", line, err)
			}
			msgs, batch := m.([]any)
			if !batch {
				msgs = []any{m}
			}
			for _, m := range msgs {
				o, ok := m.(map[string]any)
				if !ok || o["jsonrpc"] != "2.0" {
					t.Fatalf("wrote %q", line)
				}
				pinged = pinged || o["id"] == "the last" && o["result"] != nil
			}
		}
		if !pinged {
			t.Fatalf("the ping after %q was not answered: %q", in, out.Bytes())
		}
	})
}
