package guest

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape decodes the inside of a JSON string in place: no escape is shorter than what it stands for. It refuses, with
// the bytes unchanged, what is no valid inside of a string; a lone surrogate becomes U+FFFD as in encoding/json.
func unescape(s []byte) ([]byte, bool) {
	if !plain(s) {
		return nil, false
	}
	at := bytes.IndexByte(s, '\\')
	if at < 0 {
		return s, bytes.IndexByte(s, '"') < 0
	}
	if !escapesValid(s) {
		return nil, false
	}
	to := at
	for at < len(s) {
		if s[at] != '\\' {
			next := bytes.IndexByte(s[at:], '\\')
			if next < 0 {
				next = len(s) - at
			}
			to += copy(s[to:], s[at:at+next])
			at += next
			continue
		}
		if s[at+1] != 'u' {
			s[to] = escaped[s[at+1]]
			to++
			at += 2
			continue
		}
		r := hex4(s[at+2:])
		at += 6
		if utf16.IsSurrogate(r) {
			second := rune(-1)
			if at+6 <= len(s) && s[at] == '\\' && s[at+1] == 'u' {
				second = hex4(s[at+2:])
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				at += 6
			}
		}
		to += utf8.EncodeRune(s[to:], r)
	}
	return s[:to], true
}

// escaped maps the letter of a short escape to its byte.
var escaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// plain tells whether s is UTF-8 without control characters.
func plain(s []byte) bool {
	for _, c := range s {
		if c < 0x20 {
			return false
		}
	}
	return utf8.Valid(s)
}

// escapesValid tells whether every escape in s is complete and no quote stands without one.
func escapesValid(s []byte) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return false
		case '\\':
			i++
			if i == len(s) {
				return false
			}
			if s[i] == 'u' {
				if i+4 >= len(s) || hex4(s[i+1:]) < 0 {
					return false
				}
				i += 4
			} else if escaped[s[i]] == 0 {
				return false
			}
		}
	}
	return true
}

// hex4 is the value of four hex digits, -1 when they are none.
func hex4(s []byte) rune {
	var r rune
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
