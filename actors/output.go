package actors

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// clip keeps the beginning and the end of a stream in bounded memory, however long the stream is: the first half of max
// bytes as they came, the rest in a ring. It takes no more memory than the stream is long.
type clip struct {
	max   int
	head  []byte
	tail  []byte // grows to max - max/2, then is a ring
	at    int    // where the ring goes on
	total int64  // bytes that were written, kept or not
}

func (c *clip) write(p []byte) {
	c.total += int64(len(p))
	if room := c.max/2 - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	size := c.max - c.max/2
	if len(p) > size { // only its end can stay
		p = p[len(p)-size:]
	}
	if room := size - len(c.tail); room > 0 {
		n := min(room, len(p))
		c.tail = append(c.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.at:], p)
		p = p[n:]
		c.at = (c.at + n) % size
	}
}

// cut tells that not all of the stream is kept.
func (c *clip) cut() bool { return c.total > int64(len(c.head)+len(c.tail)) }

// text is what is kept, as UTF-8: each byte that is none becomes U+FFFD. Where something was cut a line says how much; no
// character is cut in two.
func (c *clip) text() string {
	if !c.cut() {
		return valid(append(c.head[:len(c.head):len(c.head)], c.tail...))
	}
	tail := append(c.tail[c.at:len(c.tail):len(c.tail)], c.tail[:c.at]...)
	head := c.head[:WholeEnd(c.head)]
	tail = tail[wholeStart(tail):]
	gone := c.total - int64(len(head)) - int64(len(tail))
	return fmt.Sprintf("%s\n[... %d bytes cut ...]\n%s", valid(head), gone, valid(tail))
}

// WholeEnd is the length of p without a character at its end of which the rest is missing: what was cut to p is then still
// UTF-8 if it was before.
func WholeEnd(p []byte) int {
	for i := len(p) - 1; i >= 0 && i >= len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}

// wholeStart is where p begins when the rest of a character whose start is missing is left out.
func wholeStart(p []byte) int {
	for i := 0; i < len(p) && i < utf8.UTFMax-1; i++ {
		if utf8.RuneStart(p[i]) {
			return i
		}
	}
	return min(len(p), utf8.UTFMax-1)
}

// valid makes a string of bytes that may be no UTF-8.
func valid(p []byte) string {
	if utf8.Valid(p) {
		return string(p)
	}
	var b strings.Builder
	b.Grow(len(p) + len(p)/4)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		b.WriteRune(r) // RuneError is U+FFFD
		p = p[n:]
	}
	return b.String()
}

// validText is valid for what came as a string.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return valid([]byte(s))
}
