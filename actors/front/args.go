package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/thawpool/thawpool/actors"
)

// maxServers bounds the names in the argument servers.
const maxServers = 200

// arguments checks the tool's arguments and fills req with them. null is the same as absent. Two mistakes that mean only
// one thing are forgiven: a timeout written as text, and one server's name without the array. The error names every
// argument that is wrong, with what is allowed, for the model to read.
func (f *Front) arguments(raw json.RawMessage, req *actors.Request) error {
	var args map[string]json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &args); err != nil {
			return errors.New("arguments must be an object, like {\"code\": \"print(1)\"}")
		}
	}
	maps.DeleteFunc(args, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	var wrong []string
	check := func(name string, parse func(json.RawMessage) error) {
		v, ok := args[name]
		if !ok && name != "code" {
			return
		}
		if err := parse(v); err != nil {
			wrong = append(wrong, name+" "+err.Error())
		}
		delete(args, name)
	}
	check("code", func(v json.RawMessage) error { return parseCode(v, &req.Code) })
	check("servers", func(v json.RawMessage) error { return parseServers(v, &req.Servers) })
	check("timeout", func(v json.RawMessage) error { return f.parseTimeout(v, &req.Timeout) })
	if len(f.cfg.Profiles) > 1 {
		check("profile", func(v json.RawMessage) error { return f.parseProfile(v, &req.Profile) })
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		wrong = append(wrong, fmt.Sprintf("%s is not an argument of %s, which takes %s",
			quote(name), toolName, strings.Join(f.argumentNames(), ", ")))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

func (f *Front) argumentNames() []string {
	names := []string{"code", "servers", "timeout"}
	if len(f.cfg.Profiles) > 1 {
		names = append(names, "profile")
	}
	return names
}

func parseCode(v json.RawMessage, code *string) error {
	if v == nil {
		return errors.New("is missing: the Python source, a string")
	}
	if v[0] != '"' || json.Unmarshal(v, code) != nil {
		return fmt.Errorf("must be a string, the Python source, and is %s", kindOf(v))
	}
	if strings.ContainsRune(*code, utf8.RuneError) && loneSurrogate(v) {
		return errors.New(`has half of a surrogate pair (\ud800 to \udfff), which is no Unicode text`)
	}
	return nil
}

// loneSurrogate tells whether a JSON string has a \u escape that the decoder could only replace by U+FFFD.
func loneSurrogate(raw []byte) bool {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		high := hex4(raw, i+1)
		switch {
		case high >= 0xd800 && high < 0xdc00:
			rest := raw[i+5:]
			if low := hex4(rest, 2); !bytes.HasPrefix(rest, []byte(`\u`)) || low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 10
		case high >= 0xdc00 && high <= 0xdfff:
			return true
		}
	}
	return false
}

func hex4(b []byte, at int) uint64 {
	if at+4 > len(b) {
		return 0
	}
	n, _ := strconv.ParseUint(string(b[at:at+4]), 16, 16) // not hexadecimal: 0, as for what is no surrogate
	return n
}

func parseServers(v json.RawMessage, servers *[]string) error {
	var names []string
	switch v[0] {
	case '"':
		names = make([]string, 1)
		_ = json.Unmarshal(v, &names[0]) // a JSON string always fits
	case '[':
		if err := json.Unmarshal(v, &names); err != nil {
			return errors.New("must be an array of strings, names of servers")
		}
	default:
		return fmt.Errorf("must be an array of strings, names of servers, and is %s", kindOf(v))
	}
	if len(names) > maxServers {
		return fmt.Errorf("may name at most %d servers and names %d", maxServers, len(names))
	}
	out := make([]string, 0, len(names)) // never nil: an empty array means no server
	for _, n := range names {
		if n == "" || n == "null" {
			return fmt.Errorf("has %s, which is no server's name; leave servers out to allow all", quote(n))
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	*servers = out
	return nil
}

func (f *Front) parseTimeout(v json.RawMessage, timeout *time.Duration) error {
	allowed := fmt.Sprintf("must be a number of seconds from %v to %v", MinTimeout.Seconds(), f.cfg.MaxTimeout.Seconds())
	text := string(v)
	if v[0] == '"' {
		_ = json.Unmarshal(v, &text)
		text = strings.TrimSpace(text)
	}
	if text == "" || !strings.ContainsRune("-0123456789.", rune(text[0])) {
		return fmt.Errorf("%s and is %s", allowed, clip(string(v)))
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < MinTimeout.Seconds() || seconds > f.cfg.MaxTimeout.Seconds() {
		return fmt.Errorf("%s and is %s", allowed, clip(string(v)))
	}
	*timeout = time.Duration(seconds * float64(time.Second))
	return nil
}

func (f *Front) parseProfile(v json.RawMessage, profile *string) error {
	if json.Unmarshal(v, profile) != nil || !slices.Contains(f.cfg.Profiles, *profile) {
		return fmt.Errorf("must be one of %s and is %s", strings.Join(f.cfg.Profiles, ", "), clip(string(v)))
	}
	return nil
}

// kindOf names a JSON value's type in an error.
func kindOf(v json.RawMessage) string {
	switch v[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	default:
		return "a number"
	}
}

// clip bounds what of a client's text an error repeats.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func quote(s string) string { return strconv.Quote(clip(s)) }
