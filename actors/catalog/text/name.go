package text

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrName is the kind of every refusal of CheckName.
var ErrName = errors.New("is not usable")

// CheckName refuses names that are empty, longer than limit bytes, not UTF-8, or that do not look like what they are:
// with control or invisible characters, or with white space at an end or other than single spaces.
func CheckName(name string, limit int) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > limit:
		return fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrName, len(name), limit)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: it is not UTF-8", ErrName)
	case name != strings.TrimSpace(name):
		return fmt.Errorf("%w: %q begins or ends with white space", ErrName, name)
	}
	for _, r := range name {
		if Hidden(r) || r == '\n' || r == '\t' || (unicode.IsSpace(r) && r != ' ') {
			return fmt.Errorf("%w: %+q has a control or invisible character", ErrName, name)
		}
	}
	return nil
}
