package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// Writer writes frames to a sandbox, each with one Write. It is for one goroutine at a time.
type Writer struct {
	dst io.Writer
	buf bytes.Buffer
}

// NewWriter returns a Writer to dst, which it never closes.
func NewWriter(dst io.Writer) *Writer { return &Writer{dst: dst} }

// EncodeRun is the run frame. Its size is the caller's to bound: the runner takes one of any length.
func EncodeRun(run Run) ([]byte, error) {
	if run.Servers == nil {
		run.Servers = []Server{}
	}
	if run.Saved == nil {
		run.Saved = []string{}
	}
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(struct {
		T string `json:"t"`
		Run
	}{"run", run}); err != nil {
		return nil, fmt.Errorf("encode run frame: %w", err)
	}
	return buf.Bytes(), nil
}

// Run writes the run frame.
func (w *Writer) Run(run Run) error {
	frame, err := EncodeRun(run)
	if err != nil {
		return err
	}
	_, err = w.dst.Write(frame)
	return err
}

// Reply answers call id with value, or with fault where that is not nil. An answer that is too large for a frame, or no
// JSON, becomes an error that tells the code so.
func (w *Writer) Reply(id uint64, value json.RawMessage, fault *CallError) error {
	if fault != nil {
		return w.fault(id, fault)
	}
	if len(value) == 0 {
		value = json.RawMessage("null")
	}
	w.head(id, `"value":`)
	if err := json.Compact(&w.buf, value); err != nil {
		return w.fault(id, &CallError{Message: "the answer is no valid JSON: " + err.Error()})
	}
	if w.buf.Len()+2 > FrameMax {
		return w.fault(id, &CallError{
			Message: fmt.Sprintf("the answer takes %d bytes; at most %d can be passed on: ask for less", len(value), FrameMax),
		})
	}
	w.buf.WriteString("}\n")
	return w.flush()
}

func (w *Writer) fault(id uint64, fault *CallError) error {
	text, err := json.Marshal(fault)
	if err != nil {
		return fmt.Errorf("encode reply frame: %w", err)
	}
	w.head(id, `"error":`)
	w.buf.Write(text)
	w.buf.WriteString("}\n")
	return w.flush()
}

// head begins a reply in the one form by which the sandbox finds its id.
func (w *Writer) head(id uint64, field string) {
	w.buf.Reset()
	w.buf.WriteString(`{"t":"reply","id":`)
	w.buf.Write(strconv.AppendUint(w.buf.AvailableBuffer(), id, 10))
	w.buf.WriteByte(',')
	w.buf.WriteString(field)
}

func (w *Writer) flush() error {
	_, err := w.dst.Write(w.buf.Bytes())
	if w.buf.Cap() > 1<<20 {
		w.buf = bytes.Buffer{} // one huge answer must not stay for the rest of the run
	}
	return err
}
