package front

import (
	"bytes"
	"encoding/json"
)

// The bounds on a trace context, bytes: what the W3C's recommendation asks to be taken.
const (
	traceParentMax = 128
	traceStateMax  = 512
)

// traceContext is a client's W3C trace context.
type traceContext struct {
	Parent string `json:"traceparent"`
	State  string `json:"tracestate"`
}

// traceFrom finds the context in a request's _meta. One that is too long is none.
func traceFrom(meta []byte) (t traceContext) {
	if !bytes.Contains(meta, []byte(`"traceparent"`)) || json.Unmarshal(meta, &t) != nil || len(t.Parent) > traceParentMax {
		return traceContext{}
	}
	if len(t.State) > traceStateMax {
		t.State = ""
	}
	return t
}
