package front

import (
	"bufio"
	"errors"
	"io"
)

// readBuffer is how much is asked of the input at a time: a Linux pipe's capacity.
const readBuffer = 64 << 10

// errTooLong tells that a line was longer than the cap; the line has been skipped.
var errTooLong = errors.New("message is too long")

// lineReader cuts its input into lines of at most max bytes. It holds no more than that of any line.
type lineReader struct {
	r   *bufio.Reader
	max int
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readBuffer), max: limit}
}

// next gives the next line without its newline; the caller owns it. The last line may lack the newline. On errTooLong id
// is the raw id of the message, as far as one could be found, and the line is nil.
func (l *lineReader) next() (line, id []byte, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.max+1 {
			return l.skip(line, part, err)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case len(line) > 0 && errors.Is(err, io.EOF):
			return line, nil, nil // the error comes again with the next read
		default:
			return nil, nil, err
		}
	}
}

// skip reads the rest of an overlong line and looks for its id on the way.
func (l *lineReader) skip(head, part []byte, err error) (line, id []byte, _ error) {
	var f idFinder
	f.write(head)
	for {
		f.write(part)
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			break // the end of the line, or of the input: that error comes again
		}
		part, err = l.r.ReadSlice('\n')
	}
	return nil, f.id(), errTooLong
}

// maxID bounds an id kept by idFinder, bytes.
const maxID = 256

// idFinder finds the value of the key "id" of the outermost object in JSON that it sees piece by piece, in memory that
// does not grow. It does not check the JSON.
type idFinder struct {
	depth    int
	inString bool
	escaped  bool
	key      bool   // the next string at depth 1 is a key
	tok      []byte // the token at depth 1 that is being read, cut at maxID
	long     bool   // tok was cut
	wasID    bool   // the last key was "id"
	found    []byte
}

func (f *idFinder) write(p []byte) {
	for _, c := range p {
		f.step(c)
	}
}

func (f *idFinder) step(c byte) {
	if f.inString {
		f.keep(c)
		switch {
		case f.escaped:
			f.escaped = false
		case c == '\\':
			f.escaped = true
		case c == '"':
			f.inString = false
		}
		return
	}
	switch c {
	case '"':
		f.inString = true
		f.keep(c)
	case '{', '[':
		f.depth++
		f.key = f.depth == 1 && c == '{'
		f.tok, f.long = f.tok[:0], f.depth > 1
	case '}', ']':
		f.endValue()
		f.depth--
	case ':':
		if f.depth == 1 && f.key {
			f.wasID = !f.long && string(f.tok) == `"id"`
			f.key, f.tok, f.long = false, f.tok[:0], false
		}
	case ',':
		f.endValue()
		f.key = f.depth == 1
	case ' ', '\t', '\r', '\n':
	default:
		f.keep(c)
	}
}

// endValue ends a value at depth 1, where the end of a nested one leaves an empty token.
func (f *idFinder) endValue() {
	if f.depth != 1 {
		return
	}
	if f.wasID && !f.long && validID(f.tok) {
		f.found = append([]byte(nil), f.tok...)
	}
	f.wasID, f.tok, f.long = false, f.tok[:0], false
}

func (f *idFinder) keep(c byte) {
	if f.depth != 1 {
		return
	}
	if len(f.tok) >= maxID {
		f.long = true
		return
	}
	f.tok = append(f.tok, c)
}

func (f *idFinder) id() []byte { return f.found }
