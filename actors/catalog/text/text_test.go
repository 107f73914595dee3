package text

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"plain text stays", "Reads a file.\n\tThen: ünï 查询", "Reads a file.\n\tThen: ünï 查询"},
		{"clear screen", "a\x1b[2Jb\x1b[31;1mred", "abred"},
		{"hyperlink", "x\x1b]8;;http://evil/\x07click\x1b]8;;\x1b\\y", "xclicky"},
		{"C1 forms of CSI and OSC", "a\u009b2Jb\u009d0;title\u009cc", "abc"},
		{"unfinished OSC hides nothing behind it", "a\x1b]0;rest of it", "a"},
		{"tag characters", "ok\U000E0041\U000E0042\U000E007F", "ok"},
		{"right-to-left override", "abc\u202Etxt.exe\u2066", "abctxt.exe"},
		{"zero width and variation selectors", "a\u200bb\u200dc\ufeffd\ufe0fe\U000E0101f\u00adg", "abcdefg"},
		{"fillers", "a\u3164b\u115fc\u2800d\u034fe", "abcde"},
		{"line separators", "a\u2028b\u0085c\r\nd\re", "a\nb\nc\nd\ne"},
		{"many empty lines", "a\n\n\n\n\nb", "a\n\nb"},
		{"invalid UTF-8", "a\xffb", "a\uFFFDb"},
		{"stacked marks", "e" + strings.Repeat("\u0301", 50), "e" + strings.Repeat("\u0301", 4)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := Clean(tc.in, 1<<20); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCleanIsBounded(t *testing.T) {
	t.Parallel()
	got := Clean(strings.Repeat("ü", 1<<20), 101)
	if len(got) > 101+len(Cut) || !utf8.ValidString(got) || !strings.HasSuffix(got, Cut) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := Line("a\n\n b\tc", 100); got != "a b c" {
		t.Errorf("Line: %q", got)
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"fs", "My Server", "über", "a.b-c_d", "查询", "CON"} {
		if err := CheckName(good, 64); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", " a", "a\n", "a\x00b", "a\u202eb", "a\u200bb", "\xff", strings.Repeat("x", 65), "a\u00a0b"} {
		if err := CheckName(bad, 64); !errors.Is(err, ErrName) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b]8;;x\x07b\u202e", 10)
	f.Add("\x1b[", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, limit%4096)
		got := Clean(s, limit)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if Hidden(r) {
				t.Fatalf("%q keeps %U", got, r)
			}
		}
		if len(got) > 3*limit+len(Cut) { // one bad byte becomes the three of U+FFFD
			t.Fatalf("%d bytes for a limit of %d", len(got), limit)
		}
		if again := Clean(got, len(got)); len(s) <= limit && again != got {
			t.Fatalf("not stable: %q, then %q", got, again)
		}
	})
}
