package guest

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape decodes the inside of a JSON string in place: no escape is shorter than what it stands for. It tells whether
// that was valid; if not, the bytes are spoilt. A lone surrogate becomes U+FFFD as in encoding/json.
func unescape(s []byte) ([]byte, bool) {
	if !utf8.Valid(s) {
		return nil, false
	}
	to, at := 0, 0
	for {
		n := literal(s[at:])
		if to != at {
			copy(s[to:], s[at:at+n])
		}
		to, at = to+n, at+n
		if at == len(s) {
			return s[:to], true
		}
		if s[at] != '\\' || at+1 == len(s) {
			return nil, false
		}
		if c := s[at+1]; c != 'u' {
			if escaped[c] == 0 {
				return nil, false
			}
			s[to] = escaped[c]
			to, at = to+1, at+2
			continue
		}
		r, size := unicodeEscape(s[at:])
		if size == 0 {
			return nil, false
		}
		at += size
		to += utf8.EncodeRune(s[to:], r)
	}
}

// escaped maps the letter of a short escape to its byte.
var escaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// literal is how many bytes s has before the first that cannot stand for itself: a quote, a backslash or a control
// character. It looks at eight bytes at a time; the well-known tricks for "some byte is zero" and "some byte is less than".
func literal(s []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := binary.LittleEndian.Uint64(s[i:])
		quote, slash := x^('"'*ones), x^('\\'*ones)
		if ((x-0x20*ones)&^x|(quote-ones)&^quote|(slash-ones)&^slash)&tops != 0 {
			break
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// unicodeEscape decodes the \u escape, or the surrogate pair, that s begins with. size is 0 when it is none.
func unicodeEscape(s []byte) (r rune, size int) {
	first, ok := hex4(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(first) {
		return first, 6
	}
	if second, ok := hex4(s[6:]); ok {
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 is the value of the \uXXXX that s begins with.
func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, c := range s[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
