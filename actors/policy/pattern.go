package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// MaxPattern is the longest pattern in bytes. Names of servers and tools are far shorter; the bound keeps matching cheap.
const MaxPattern = 512

// class is the kind of tools a pattern is limited to by their annotations.
type class int

const (
	classAny class = iota
	classReadOnly
	classDestructive
)

var classWords = map[string]class{"readonly": classReadOnly, "destructive": classDestructive}

// slashStandIn replaces a slash in patterns and names before they are matched: doublestar takes slashes for path
// separators, which names do not have.
const slashStandIn = "\x1f"

// Pattern is one parsed pattern. The zero value matches nothing.
type Pattern struct {
	text   string
	server string // glob
	tool   string // glob; empty means every tool and the server itself
	class  class
}

// PatternError says what is wrong with a pattern.
type PatternError struct {
	Pattern string
	Err     error
}

func (e *PatternError) Error() string { return fmt.Sprintf("pattern %q: %v", e.Pattern, e.Err) }
func (e *PatternError) Unwrap() error { return e.Err }

// Parse reads one pattern. The error is a *PatternError.
func Parse(text string) (Pattern, error) {
	p, err := parse(text)
	if err != nil {
		return Pattern{}, &PatternError{Pattern: text, Err: err}
	}
	return p, nil
}

// ParseName reads a pattern over whole names, in which dots and colons are like other characters. The error is a
// *PatternError.
func ParseName(text string) (Pattern, error) {
	err := checkText(text)
	if err == nil {
		var p Pattern
		if p, err = (Pattern{text: text, server: text}).compile(); err == nil {
			return p, nil
		}
	}
	return Pattern{}, &PatternError{Pattern: text, Err: err}
}

func checkText(text string) error {
	switch {
	case strings.TrimSpace(text) != text || text == "":
		return errors.New("is empty or has spaces around it")
	case len(text) > MaxPattern:
		return fmt.Errorf("is longer than %d bytes", MaxPattern)
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\x00"+slashStandIn):
		return errors.New("is not valid text")
	}
	return nil
}

func parse(text string) (Pattern, error) {
	if err := checkText(text); err != nil {
		return Pattern{}, err
	}
	p := Pattern{text: text, server: text}
	if c, ok := classWords[text]; ok {
		p.server, p.class = "*", c
		return p, nil
	}
	if head, word, ok := cutPlain(p.server, ':'); ok {
		c, known := classWords[word]
		if !known {
			return Pattern{}, fmt.Errorf("%q after the colon is neither readonly nor destructive; a colon in a name is written with a backslash before it", word)
		}
		p.server, p.class = head, c
	}
	if i := indexPlain(p.server, '.'); i >= 0 {
		p.server, p.tool = p.server[:i], p.server[i+1:]
		if p.tool == "" {
			return Pattern{}, errors.New("has nothing after the dot; write server.* for all tools, or \\. for a dot in a server's name")
		}
	}
	if p.server == "" {
		return Pattern{}, errors.New("names no server; write *.tool for a tool of any server")
	}
	return p.compile()
}

func (p Pattern) compile() (Pattern, error) {
	p.server = strings.ReplaceAll(p.server, "/", slashStandIn)
	p.tool = strings.ReplaceAll(p.tool, "/", slashStandIn)
	if !doublestar.ValidatePattern(p.server) || !doublestar.ValidatePattern(p.tool) {
		return Pattern{}, errors.New("is not a glob: a bracket, brace or backslash is left open")
	}
	return p, nil
}

// String gives the pattern as it was written.
func (p Pattern) String() string { return p.text }

// matchServer reports whether the pattern speaks of this server, or of some of its tools.
func (p Pattern) matchServer(server string) bool { return match(p.server, server) }

// coversServer reports whether the pattern takes in the server as a whole.
func (p Pattern) coversServer(server string) bool {
	return p.class == classAny && (p.tool == "" || p.tool == "*") && p.matchServer(server)
}

// matchTool reports whether the pattern takes in this tool.
func (p Pattern) matchTool(server string, t Tool) bool {
	if !p.matchServer(server) {
		return false
	}
	switch {
	case p.class == classReadOnly && !t.ReadOnly:
		return false
	case p.class == classDestructive && (t.ReadOnly || t.NotDestructive):
		return false
	}
	return p.tool == "" || match(p.tool, t.Name)
}

func match(glob, name string) bool {
	if glob == "" {
		return false
	}
	ok, err := doublestar.Match(glob, strings.ReplaceAll(name, "/", slashStandIn))
	return ok && err == nil
}

// maxName is the longest name, in bytes, that patterns are held against: hostile names must not make matching dear.
const maxName = 1024

// unmatchable reports whether no pattern can speak of this name, neither to allow nor to deny it.
func unmatchable(name string) bool {
	return len(name) > maxName || strings.Contains(name, slashStandIn)
}

// indexPlain finds the first c that is not escaped and not inside brackets or braces.
func indexPlain(s string, c byte) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '[' || s[i] == '{':
			depth++
		case s[i] == ']' || s[i] == '}':
			depth--
		case s[i] == c && depth <= 0:
			return i
		}
	}
	return -1
}

// cutPlain cuts s at the first c that indexPlain finds.
func cutPlain(s string, c byte) (head, tail string, ok bool) {
	if i := indexPlain(s, c); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
