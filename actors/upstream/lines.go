package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// edge is how much of each end of an over-long line is kept to find whose answer it was.
const edge = 4 << 10

// skipLogEvery bounds how often skipped lines are logged, for each server.
const skipLogEvery = 30 * time.Second

// lines reads a child's stdout and passes on only whole JSON-RPC messages, one a line: banners, fragments, blank lines
// and notifications that nobody here listens to are left out; bytes that are not UTF-8 are replaced. An answer that is
// too long, or not JSON, becomes an error answer with its id, so that its call fails at once and not at its time limit.
// mcp-go v1.2.1: the transport reads lines of any length into memory and skips what it cannot parse without a word.
type lines struct {
	src *bufio.Reader
	max int64
	log zerolog.Logger

	ended     chan struct{} // closed at the source's end
	end       sync.Once
	out       []byte // what Read still has to give
	skipped   int64
	sometimes rate.Sometimes
}

func newLines(src io.Reader, limit int64, log zerolog.Logger) *lines {
	return &lines{
		src: bufio.NewReaderSize(src, 64<<10), max: limit, log: log, ended: make(chan struct{}),
		sometimes: rate.Sometimes{First: 1, Interval: skipLogEvery},
	}
}

// Read gives the next bytes of the next good lines. Any error of the source is the end.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.out) == 0 {
		line, over, err := l.next()
		if out := l.judge(line, over); out != nil {
			l.out = append(out, '\n')
			break
		}
		if err != nil {
			l.end.Do(func() { close(l.ended) })
			return 0, io.EOF
		}
	}
	n := copy(p, l.out)
	l.out = l.out[n:]
	return n, nil
}

// next reads one line. over is set when it was longer than max; line then holds its two edges.
func (l *lines) next() (line []byte, over bool, err error) {
	for {
		part, err := l.src.ReadSlice('\n')
		if !over && int64(len(line)+len(part)) > l.max {
			over = true
			line = line[:min(len(line), edge)]
		}
		line = append(line, part...)
		if over && len(line) > 2*edge {
			line = append(line[:edge:edge], line[len(line)-edge:]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), over, err
		}
	}
}

// judge returns what is to be passed on for line, nil for nothing.
func (l *lines) judge(line []byte, over bool) []byte {
	switch {
	case over:
		if id := answerID(line); id != nil {
			return refusal(id, fmt.Sprintf("the answer is larger than %d bytes, the most that is taken", l.max))
		}
		return l.skip(line, "too long")
	case len(line) == 0:
		return nil
	case line[0] != '{':
		return l.skip(line, "not a JSON-RPC message")
	}
	var m struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  string          `json:"method"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		if id := answerID(line); id != nil {
			return refusal(id, "the answer is not valid JSON")
		}
		return l.skip(line, "not JSON")
	}
	if m.JSONRPC != "2.0" {
		return l.skip(line, "no JSON-RPC message")
	}
	if m.Method != "" && m.ID == nil && m.Method != methodListChanged {
		return nil
	}
	return bytes.ToValidUTF8(line, []byte("\uFFFD"))
}

func (l *lines) skip(line []byte, why string) []byte {
	l.skipped++
	l.sometimes.Do(func() {
		l.log.Warn().Str("why", why).Int("bytes", len(line)).Int64("skipped", l.skipped).
			Msg("server wrote a line to stdout that is no message; skipped")
	})
	return nil
}

// The id of an answer stands at the one end or the other of what all known servers write. Only a brace right after it
// at the very end of the line makes it the outermost object's.
var (
	idAtHead = regexp.MustCompile(`^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(0|[1-9]\d{0,14})\s*,`)
	idAtTail = regexp.MustCompile(`,\s*"id"\s*:\s*(0|[1-9]\d{0,14})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}$`)
)

// answerID finds the id in an answer that cannot be parsed; nil when there is none to be found.
func answerID(line []byte) []byte {
	head, end := line[:min(len(line), edge)], line[max(0, len(line)-edge):]
	if bytes.Contains(head, []byte(`"method"`)) {
		return nil
	}
	if m := idAtHead.FindSubmatch(head); m != nil {
		return m[1]
	}
	if m := idAtTail.FindSubmatch(end); m != nil {
		return m[1]
	}
	return nil
}

// codeUnusable is the code of refusal, from the range that JSON-RPC leaves to implementations.
const codeUnusable = -32050

// refusal is an error answer in the server's place.
func refusal(id []byte, message string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, codeUnusable, message)
}
