package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/thawpool/thawpool/actors/catalog/config"
)

// The kinds of option values. Each implements pflag.Value: Set reads what a person writes, String what Set reads again.

// sizeValue is a number of bytes: 512m, 1GiB, 1048576.
type sizeValue int64

func (v *sizeValue) Set(s string) error {
	n, err := units.RAMInBytes(s)
	if err != nil || n < 0 {
		return fmt.Errorf("must be a size like 512m or 1GiB and is %q", s)
	}
	*v = sizeValue(n)
	return nil
}

func (v *sizeValue) String() string { return sizeText(int64(*v)) }

// Type is the word that stands for a value in help.
func (v *sizeValue) Type() string { return "size" }

// sizeText writes a size in the greatest unit that keeps it exact.
func sizeText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// durationValue is a time: 30s, 1m30s; a bare number means seconds, as the reference bridge has it.
type durationValue time.Duration

func (v *durationValue) Set(s string) error {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && seconds >= 0 && seconds < 1e9 {
		*v = durationValue(seconds * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return fmt.Errorf("must be a time like 30s or 5m and is %q", s)
	}
	*v = durationValue(d)
	return nil
}

func (v *durationValue) String() string { return durationText(time.Duration(*v)) }

// Type is the word that stands for a value in help.
func (v *durationValue) Type() string { return "time" }

// durationText is d without units that are zero: 1h, not 1h0m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// intValue is a whole number of any width.
type intValue[T int | int64] struct{ p *T }

func (v intValue[T]) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || int64(T(n)) != n {
		return fmt.Errorf("must be a whole number and is %q", s)
	}
	*v.p = T(n)
	return nil
}

func (v intValue[T]) String() string {
	if v.p == nil { // pflag asks a zero value for its text
		return "0"
	}
	return strconv.FormatInt(int64(*v.p), 10)
}

// Type is the word that stands for a value in help.
func (v intValue[T]) Type() string { return "number" }

// textValue is a string; lower makes it lower case, since the reference bridge writes log levels in capitals.
type textValue[T ~string] struct {
	p     *T
	kind  string
	lower bool
	alias map[string]T // other words for some values
}

func (v textValue[T]) Set(s string) error {
	if v.lower {
		s = strings.ToLower(s)
	}
	*v.p = T(s)
	if word, ok := v.alias[s]; ok {
		*v.p = word
	}
	return nil
}

func (v textValue[T]) String() string {
	if v.p == nil {
		return ""
	}
	return string(*v.p)
}

// Type is the word that stands for a value in help.
func (v textValue[T]) Type() string { return v.kind }

// dirValue is a directory; a leading ~ is the home directory, as the reference bridge has it.
type dirValue struct{ textValue[string] }

func (v dirValue) Set(s string) error {
	home, _ := os.UserHomeDir() // without one ~ stays, which is told as no absolute path
	return v.textValue.Set(config.Tilde(s, home))
}

// listValue is a list of words with commas between them, of which those in brackets belong to a word. Flags may be
// repeated; together they replace what was there.
type listValue struct {
	p   *[]string
	set bool
}

func (v *listValue) Set(s string) error {
	if !v.set {
		*v.p, v.set = nil, true
	}
	depth, start := 0, 0
	for i, c := range s + "," {
		switch {
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && (depth <= 0 || i == len(s)):
			if word := strings.TrimSpace(s[start:i]); word != "" {
				*v.p = append(*v.p, word)
			}
			start = i + 1
		}
	}
	return nil
}

func (v *listValue) String() string {
	if v.p == nil {
		return ""
	}
	return strings.Join(*v.p, ",")
}

// Type is the word that stands for a value in help.
func (v *listValue) Type() string { return "list" }

// boolValue is true or false.
type boolValue struct{ p *bool }

func (v boolValue) Set(s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return fmt.Errorf("must be true or false and is %q", s)
	}
	*v.p = b
	return nil
}

func (v boolValue) String() string { return strconv.FormatBool(v.p != nil && *v.p) }

// Type is the word that stands for a value in help: pflag shows none for bool.
func (v boolValue) Type() string { return "bool" }

// poolSize is a number of sandboxes, or auto.
type poolSize struct {
	N    int
	Auto bool
}

// Set implements pflag.Value.
func (v *poolSize) Set(s string) error {
	if s == "auto" {
		*v = poolSize{Auto: true}
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("must be a whole number or auto and is %q", s)
	}
	*v = poolSize{N: n}
	return nil
}

func (v *poolSize) String() string {
	if v.Auto {
		return "auto"
	}
	return strconv.Itoa(v.N)
}

// Type is the word that stands for a value in help.
func (v *poolSize) Type() string { return "number" }
