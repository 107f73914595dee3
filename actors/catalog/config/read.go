package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

// maxFile bounds a config file in bytes. Claude Code keeps its history in the same file, some MiB of it.
const maxFile = 32 << 20

// maxNesting bounds how deep objects and arrays nest; known formats stay below ten.
const maxNesting = 200

// read returns a file's text without a byte order mark.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO in the directory must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxFile:
		return nil, fmt.Errorf("has more than %d bytes", maxFile)
	}
	return decode(raw)
}

// NameOf is the name of the file that is read at path. It is another one where root has handed over a copy in memory, which
// is called like its original.
func NameOf(path string) string {
	if !strings.HasPrefix(path, "/proc/self/fd/") {
		return path
	}
	link, err := os.Readlink(path)
	name, inMemory := strings.CutPrefix(link, "/memfd:")
	if err != nil || !inMemory {
		return path
	}
	return strings.TrimSuffix(name, " (deleted)")
}

// decode takes UTF-8, with a mark or without, and refuses everything else by name.
func decode(raw []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(raw, []byte{0xff, 0xfe}), bytes.HasPrefix(raw, []byte{0xfe, 0xff}),
		len(raw) >= 2 && (raw[0] == 0) != (raw[1] == 0):
		return nil, errors.New("is UTF-16; save it as UTF-8")
	}
	raw = bytes.TrimPrefix(raw, []byte{0xef, 0xbb, 0xbf})
	if !utf8.Valid(raw) {
		at := 0
		for at < len(raw) {
			r, n := utf8.DecodeRune(raw[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		p := newLines(raw).at(at)
		return nil, fmt.Errorf("is not UTF-8 at line %d, column %d; save it as UTF-8", p.Line, p.Column)
	}
	return raw, nil
}

// lines turns offsets into lines and columns.
type lines []int // offset of each line's first byte

func newLines(raw []byte) lines {
	l := lines{0}
	for i, b := range raw {
		if b == '\n' {
			l = append(l, i+1)
		}
	}
	return l
}

func (l lines) at(offset int) Position {
	low, high := 0, len(l)
	for high-low > 1 {
		if mid := (low + high) / 2; l[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	return Position{Line: low + 1, Column: offset - l[low] + 1}
}

// nests finds where JSON with comments nests deeper than limit, -1 when it does not.
func nests(raw []byte, limit int) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] == '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(raw[i:], []byte("//")):
			i += max(0, bytes.IndexByte(raw[i:], '\n'))
		case bytes.HasPrefix(raw[i:], []byte("/*")):
			i += 2 + max(0, bytes.Index(raw[i+2:], []byte("*/")))
		case raw[i] == '{' || raw[i] == '[':
			if depth++; depth > limit {
				return i
			}
		case raw[i] == '}' || raw[i] == ']':
			depth--
		}
	}
	return -1
}
