package front

import (
	"strings"
	"testing"
)

func TestTraceFrom(t *testing.T) {
	for meta, want := range map[string]traceContext{
		`{"traceparent":"00-a-b-01","tracestate":"x=y"}`: {"00-a-b-01", "x=y"},
		`{"progressToken":1}`:                            {},
		``:                                               {},
		`{"traceparent":7}`:                              {},
		`{"traceparent":"` + strings.Repeat("0", 200) + `"}`:                         {},
		`{"traceparent":"p","tracestate":"` + strings.Repeat("0", 600) + `"}`:        {Parent: "p"},
		`{"traceparent":"p","other":{"traceparent":"q"},"progressToken":"t","x":[]}`: {Parent: "p"},
	} {
		if got := traceFrom([]byte(meta)); got != want {
			t.Errorf("%.60s: %+v", meta, got)
		}
	}
}
