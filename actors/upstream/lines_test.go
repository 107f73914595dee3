package upstream

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"Starting\n{\n", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", "\n\n\r\n \n", `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 400) + `"}` + "\n",
		`{"result":1,"jsonrpc":"2.0","id":77}`, "\xff{}\n", `{"id":3,"jsonrpc":"2.0"` + "\n", `[{"jsonrpc":"2.0"}]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 256
		out, err := io.ReadAll(newLines(strings.NewReader(string(in)), limit, zerolog.Nop()))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			var m struct{ JSONRPC string }
			if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &m) != nil || m.JSONRPC != "2.0" {
				t.Fatalf("passed on: %q", line)
			}
			if len(line) > 3*limit+1 { // a replaced byte takes three
				t.Fatalf("passed on %d bytes", len(line))
			}
		}
	})
}
