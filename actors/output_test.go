package actors

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func clipped(limit int, parts ...string) *clip {
	c := &clip{max: limit}
	for _, p := range parts {
		c.write([]byte(p))
	}
	return c
}

func TestClip(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		max   int
		parts []string
		want  string
	}{
		"nothing":             {10, nil, ""},
		"all fits":            {10, []string{"0123", "456789"}, "0123456789"},
		"odd bound":           {5, []string{"abcde"}, "abcde"},
		"one too many":        {4, []string{"abcde"}, "ab\n[... 1 bytes cut ...]\nde"},
		"in small parts":      {4, strings.Split("abcdefghi", ""), "ab\n[... 5 bytes cut ...]\nhi"},
		"in one part":         {4, []string{"abcdefghi"}, "ab\n[... 5 bytes cut ...]\nhi"},
		"head inside a rune":  {8, []string{"abcä" + "xxxxxxxx" + "wxyz"}, "abc\n[... 10 bytes cut ...]\nwxyz"},
		"tail inside a rune":  {8, []string{"abcd" + "xxxxxxxx" + "€yz"}, "abcd\n[... 11 bytes cut ...]\nyz"},
		"no UTF-8":            {10, []string{"a\xff\xfeb"}, "a\ufffd\ufffdb"},
		"rune in two parts":   {10, []string{"\xe2\x82", "\xac"}, "€"},
		"unfinished at end":   {10, []string{"a\xe2\x82"}, "a\ufffd\ufffd"},
		"lone surrogate":      {10, []string{"a\xed\xa0\x80b"}, "a\ufffd\ufffd\ufffdb"},
		"continuation only":   {4, []string{strings.Repeat("\x80", 9)}, "\ufffd\ufffd\n[... 7 bytes cut ...]\n"},
		"bound of one":        {1, []string{"abc"}, "\n[... 2 bytes cut ...]\nc"},
		"exactly twice round": {4, []string{"ab", "cd", "ef", "gh"}, "ab\n[... 4 bytes cut ...]\ngh"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := clipped(c.max, c.parts...).text(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What is cut is told exactly, and both ends stay.
func TestHeadAndTail(t *testing.T) {
	t.Parallel()
	c := &clip{max: 1 << 16}
	for i := range 20000 {
		c.write(fmt.Appendf(nil, "line %d\n", i))
	}
	c.write([]byte("END-MARK\n"))
	text := c.text()
	head, rest, _ := strings.Cut(text, "\n[... ")
	count, tail, _ := strings.Cut(rest, " bytes cut ...]\n")
	if !strings.HasPrefix(head, "line 0\n") || !strings.HasSuffix(tail, "END-MARK\n") {
		t.Errorf("%.20q … %.20q", head, tail[max(0, len(tail)-20):])
	}
	if want := fmt.Sprint(c.total - int64(len(head)+len(tail))); count != want {
		t.Errorf("%s bytes cut, want %s", count, want)
	}
}

func FuzzClip(f *testing.F) {
	f.Add(7, []byte("aä€😀\xff\x80zz aä€😀"), 3)
	f.Fuzz(func(t *testing.T, limit int, data []byte, step int) {
		if limit < 1 || limit > 1000 || step < 1 {
			return
		}
		c := &clip{max: limit}
		for rest := data; len(rest) > 0; {
			n := min(step, len(rest))
			c.write(rest[:n])
			rest = rest[n:]
		}
		text := c.text()
		if !utf8.ValidString(text) {
			t.Fatalf("%q is no UTF-8", text)
		}
		if len(c.head)+len(c.tail) > limit || c.total != int64(len(data)) {
			t.Fatalf("keeps %d+%d of %d", len(c.head), len(c.tail), limit)
		}
		if !c.cut() && text != valid(data) {
			t.Fatalf("%q of %q", text, data)
		}
		if !bytes.HasPrefix(data, c.head) {
			t.Fatal("the head is wrong")
		}
		if c.cut() && utf8.Valid(data) {
			head, rest, _ := strings.Cut(text, "\n[... ")
			_, tail, _ := strings.Cut(rest, " bytes cut ...]\n")
			if !strings.Contains(string(data), "\n[... ") && (!strings.HasPrefix(string(data), head) || !strings.HasSuffix(string(data), tail)) {
				t.Fatalf("%q of %q", text, data)
			}
		}
	})
}
