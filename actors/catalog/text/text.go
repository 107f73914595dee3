// Package text makes words from upstream servers, config files and registries safe to show to a model or on a terminal:
// no control, bidirectional, tag or other invisible characters, and a bounded length. What the words say is not judged.
package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cut ends text that was longer than its bound.
const Cut = " … [cut]"

// maxMarks bounds combining marks on one letter: real orthographies stack at most a few, "zalgo" text stacks dozens.
const maxMarks = 4

// escapes are whole terminal sequences (ECMA-48): strings such as OSC and DCS up to their terminator, CSI, and short ones.
// Removing only the ESC would leave their remains in the text.
var escapes = regexp.MustCompile(`(?s)(?:\x1b[\]PX^_]|[\x{9d}\x{90}\x{98}\x{9e}\x{9f}])[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c}|$)` +
	`|(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]?` +
	`|\x1b[ -/]*[0-~]?`)

// Clean returns s without what cannot be seen, at most limit bytes and Cut. Newlines and tabs stay; line separators
// become newlines; more than one empty line becomes one.
func Clean(s string, limit int) string {
	s, cut := bound(s, limit)
	if plain(s) && !cut {
		return strings.TrimSpace(s)
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = escapes.ReplaceAllString(s, "")
	s = strings.TrimSpace(visible(s))
	if cut {
		s += Cut
	}
	return s
}

// Line is Clean for one line: every run of white space becomes one space.
func Line(s string, limit int) string {
	s, cut := bound(s, limit)
	s = strings.Join(strings.Fields(Clean(s, len(s))), " ")
	if cut {
		s += Cut
	}
	return s
}

// plain tells that s is one line of printable ASCII, which most texts are, and so has nothing to clean.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Head is s as it is, of a long one at most limit bytes and an ellipsis.
func Head(s string, limit int) string {
	s, cut := bound(s, limit)
	if cut {
		s += "…"
	}
	return s
}

// bound cuts s at a rune's start.
func bound(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit], true
}

func visible(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	marks, lines := 0, 0
	for _, r := range s {
		if r == '\u2028' || r == '\u2029' || r == '\u0085' || r == '\r' {
			r = '\n'
		}
		switch {
		case r == '\n':
			lines++
			marks = 0
			if lines > 2 {
				continue
			}
		case Hidden(r):
			continue
		case unicode.Is(unicode.M, r):
			if marks++; marks > maxMarks {
				continue
			}
		default:
			marks, lines = 0, 0
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Hidden tells whether r shows nothing, or changes how its neighbours are shown. Newline and tab are not hidden.
func Hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp):
		return true // Cf holds the bidirectional controls, zero-width characters and the tags U+E0000..E007F
	case unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point):
		return true
	}
	return r == '\u2800' || r == '\u034f' // braille blank, combining grapheme joiner
}
