package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxBatch bounds the messages of one batch: more are no saving, and each may start a call.
const maxBatch = 1000

// receiveBatch handles an array of messages, which only revision 2025-03-26 has.
func (s *session) receiveBatch(line []byte) {
	var parts []json.RawMessage
	err := json.Unmarshal(line, &parts)
	var syntax *json.SyntaxError
	switch v := s.ProtocolVersion(); {
	case errors.As(err, &syntax):
		s.w.send(encode(nil, nil, &rpcError{Code: mcp.PARSE_ERROR,
			Message: fmt.Sprintf("Parse error: %v at byte %d", syntax, syntax.Offset)}), nil)
	case v != mcp.ProtocolVersion20250326:
		if v == "" {
			v = "none"
		}
		s.w.send(encode(nil, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf(
			"Invalid request: batches exist only in MCP revision %s, and the session has negotiated %s; send one message a line",
			mcp.ProtocolVersion20250326, v)}), nil)
	case len(parts) == 0:
		s.w.send(encode(nil, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: "Invalid request: the batch is empty"}), nil)
	case len(parts) > maxBatch:
		s.w.send(encode(nil, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf(
			"Invalid request: a batch may have at most %d messages", maxBatch)}), nil)
	default:
		b := &batch{s: s, open: len(parts)}
		for _, p := range parts {
			s.receiveOne(p, b, b.answer)
		}
	}
}

// batch gathers the answers to its messages and sends them as one array once all are there.
type batch struct {
	s    *session
	mu   sync.Mutex
	open int // messages that have not answered
	out  bytes.Buffer
	free []func()
}

// full tells that no more answers are to be made for the batch, which keeps all of them until the last one is there. Those
// of calls that run already still come on top, as they do outside of a batch.
func (b *batch) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Len() > roomBytes
}

func (b *batch) answer(line []byte, free func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if free != nil {
		b.free = append(b.free, free)
	}
	if line != nil {
		sep := byte(',')
		if b.out.Len() == 0 {
			sep = '['
		}
		b.out.WriteByte(sep)
		b.out.Write(bytes.TrimSuffix(line, []byte("\n")))
	}
	if b.open--; b.open > 0 {
		return
	}
	var whole []byte
	if b.out.Len() > 0 {
		b.out.WriteString("]\n")
		whole = b.out.Bytes()
	}
	b.s.answer(whole, func() {
		for _, f := range b.free {
			f()
		}
	})
}
