package guest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// ErrProtocol is the kind of every error that hostile or broken bytes cause. After one the stream cannot be read on.
var ErrProtocol = errors.New("sandbox broke the frame protocol")

// Reader reads frames from a sandbox. Memory is bounded by one frame, whatever arrives. It is for one goroutine.
type Reader struct {
	src   io.Reader
	max   int
	admit func(kind Kind, size int) error

	buf        []byte
	start, end int // of what was read and not returned yet
	scanned    int // bytes from start on that are known to hold no newline
	frame      Frame
}

// ReaderOption changes a Reader.
type ReaderOption func(*Reader)

// WithFrameMax sets the largest frame in bytes, newline included; FrameMax by default.
func WithFrameMax(n int) ReaderOption { return func(r *Reader) { r.max = n } }

// WithAdmit sets a function that is told kind and size in bytes of each frame before it is decoded, for budgets of count,
// bytes or rate. Its error ends the reading and is what Next returns.
func WithAdmit(admit func(kind Kind, size int) error) ReaderOption {
	return func(r *Reader) { r.admit = admit }
}

// WithBuffer sets the buffer to begin with, which the caller may use again once it no longer reads. What it holds does not
// matter.
func WithBuffer(buf []byte) ReaderOption { return func(r *Reader) { r.buf = buf } }

// initialBuffer holds one out frame of the usual payload with room for escapes.
const initialBuffer = PayloadMax + 16<<10

// NewReader returns a Reader of src, which it never closes.
func NewReader(src io.Reader, options ...ReaderOption) *Reader {
	r := &Reader{src: src, max: FrameMax}
	for _, o := range options {
		o(r)
	}
	return r
}

// Next returns the next frame. It is valid until the next call. io.EOF means that the sandbox ended between two frames,
// io.ErrUnexpectedEOF within one; other errors of the source come back as they are.
func (r *Reader) Next() (*Frame, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	kind := sniff(line)
	if r.admit != nil {
		if err := r.admit(kind, len(line)+1); err != nil {
			return nil, err
		}
	}
	r.frame = Frame{Kind: kind, Size: len(line) + 1}
	if err := r.frame.decode(line); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return &r.frame, nil
}

// line returns the next line without its newline. It stays in the buffer.
func (r *Reader) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(r.buf[r.start+r.scanned:r.end], '\n'); i >= 0 {
			line := r.buf[r.start : r.start+r.scanned+i]
			r.start += r.scanned + i + 1
			r.scanned = 0
			if len(line)+1 > r.max {
				return nil, r.tooLong()
			}
			return line, nil
		}
		r.scanned = r.end - r.start
		if r.scanned >= r.max {
			return nil, r.tooLong()
		}
		if err := r.fill(); err != nil {
			if errors.Is(err, io.EOF) && r.scanned > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

func (r *Reader) tooLong() error {
	return fmt.Errorf("%w: a frame is longer than %d bytes", ErrProtocol, r.max)
}

// fill reads once, after making room: by moving what is left to the front, by growing, or by giving back a buffer that one
// huge frame made grow.
func (r *Reader) fill() error {
	left := r.end - r.start
	switch {
	case left == 0 && (r.buf == nil || len(r.buf) > 8*initialBuffer):
		r.buf = make([]byte, initialBuffer)
		r.start, r.end = 0, 0
	case left == 0:
		r.start, r.end = 0, 0
	case r.end == len(r.buf) && left > len(r.buf)/2:
		grown := make([]byte, min(2*len(r.buf), max(r.max+1, len(r.buf)+1)))
		r.end = copy(grown, r.buf[r.start:r.end])
		r.buf, r.start = grown, 0
	case r.end == len(r.buf):
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	for range 100 { // as many empty reads as bufio allows
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// sniff tells the kind of a frame that the runner wrote, and "" for what it never writes.
func sniff(line []byte) Kind {
	rest, ok := bytes.CutPrefix(line, []byte(`{"t":"`))
	if !ok {
		return ""
	}
	name, _, _ := bytes.Cut(rest[:min(len(rest), 8)], []byte(`"`))
	for _, kind := range []Kind{KindOut, KindCall, KindDone, KindExit, KindCancel, KindReady} {
		if string(name) == string(kind) {
			return kind
		}
	}
	return ""
}

// textOut takes an out frame of text in the very form that the runner writes, decoding in place and without garbage:
// these are nearly all the bytes that a sandbox sends. mine is false when the line has another form.
func (f *Frame) textOut(line []byte) (mine bool, err error) {
	const head = len(`{"t":"out","fd":1,"d":"`)
	if len(line) < head+2 || !bytes.HasSuffix(line, []byte(`"}`)) {
		return false, nil
	}
	fd := line[head-7]
	if string(line[:head-7]) != `{"t":"out","fd":` || string(line[head-6:head]) != `,"d":"` || (fd != '1' && fd != '2') {
		return false, nil
	}
	data, ok := unescape(line[head : len(line)-2])
	if !ok {
		return true, errors.New("the text of an out frame is malformed")
	}
	f.FD, f.Data = int(fd-'0'), data
	return true, nil
}

// wire is a frame as JSON, every kind at once.
type wire struct {
	T      Kind            `json:"t"`
	V      int             `json:"v"`
	Python string          `json:"python"`
	FD     int             `json:"fd"`
	D      *string         `json:"d"`
	B      *string         `json:"b"`
	ID     uint64          `json:"id"`
	Verb   string          `json:"verb"`
	Args   json.RawMessage `json:"args"`
	Value  *string         `json:"value"`
	Error  *Error          `json:"error"`
	Notes  []string        `json:"notes"`
	Code   *int            `json:"code"`
	Signal int             `json:"signal"`
	Reason string          `json:"reason"`
}

func (f *Frame) decode(line []byte) error {
	if f.Kind == KindOut {
		if mine, err := f.textOut(line); mine {
			return err
		}
	}
	if f.Kind == "" {
		return fmt.Errorf("a line is no frame: %s", excerpt(line))
	}
	if !utf8.Valid(line) {
		return errors.New("a frame is not UTF-8")
	}
	if Depth(line) > DepthMax {
		return fmt.Errorf("a frame is nested more than %d deep", DepthMax)
	}
	var w wire
	if err := json.Unmarshal(line, &w); err != nil {
		return fmt.Errorf("a %s frame is malformed: %w", f.Kind, err)
	}
	if w.T != f.Kind {
		return fmt.Errorf("a %s frame claims to be something else too", f.Kind)
	}
	return f.take(&w)
}

// take moves the fields that belong to the kind, and checks them.
func (f *Frame) take(w *wire) error {
	switch f.Kind {
	case KindReady:
		if w.V != ProtocolVersion {
			return fmt.Errorf("the runner speaks protocol version %d, this program %d", w.V, ProtocolVersion)
		}
		f.Version, f.Python = w.V, w.Python
	case KindOut:
		return f.takeOut(w)
	case KindCall, KindCancel:
		if w.ID == 0 {
			return fmt.Errorf("a %s frame has no id", f.Kind)
		}
		f.ID, f.Verb, f.Args = w.ID, w.Verb, w.Args
	case KindDone:
		f.Value, f.Error, f.Notes = w.Value, w.Error, w.Notes
	case KindExit:
		f.Code, f.Signal, f.Reason = -1, w.Signal, w.Reason
		if w.Code != nil {
			f.Code = *w.Code
		}
		if (w.Code == nil) == (w.Signal == 0) || w.Signal < 0 {
			return errors.New("an exit frame needs either a code or a signal")
		}
	}
	return nil
}

func (f *Frame) takeOut(w *wire) error {
	if w.FD != 1 && w.FD != 2 {
		return fmt.Errorf("an out frame is of fd %d", w.FD)
	}
	f.FD = w.FD
	switch {
	case w.D != nil && w.B == nil:
		f.Data = []byte(*w.D)
	case w.B != nil && w.D == nil:
		data, err := base64.StdEncoding.DecodeString(*w.B)
		if err != nil {
			return fmt.Errorf("an out frame's bytes: %w", err)
		}
		f.Data = data
	default:
		return errors.New("an out frame needs either d or b")
	}
	return nil
}

// Depth is the deepest nesting of arrays and objects in line, which need not be valid JSON.
func Depth(line []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// excerpt shows the beginning of hostile bytes.
func excerpt(line []byte) string {
	return fmt.Sprintf("%.80q", strings.ToValidUTF8(string(line[:min(len(line), 80)]), "?"))
}
