package registry

import (
	"fmt"
	"regexp"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

// input is a value that is given, has a default, or must come from the user.
type input struct {
	Name      string           `json:"name"`
	Value     string           `json:"value"`
	Default   string           `json:"default"`
	Required  bool             `json:"isRequired"`
	Variables map[string]input `json:"variables"`
}

type argument struct {
	input
	Kind string `json:"type"` // positional or named
	Hint string `json:"valueHint"`
}

// inputs adds arguments and environment, as far as they are given or have defaults.
func (p pkg) inputs(s config.Server) (config.Server, string) {
	for _, a := range p.Arguments {
		value, given, needs := a.resolve()
		switch {
		case needs != "":
			return s, needsUser(needs, "argument", a.Name, a.Hint)
		case a.Kind == "named" && a.Name != "" && (given || a.Required):
			s.Args = append(s.Args, a.Name)
		}
		if given && value != "" {
			s.Args = append(s.Args, value)
		}
	}
	for _, e := range p.Env {
		value, given, needs := e.resolve()
		if needs != "" {
			return s, needsUser(needs, "variable", e.Name)
		}
		if !given {
			continue
		}
		if !variable.MatchString(e.Name) || steering.MatchString(e.Name) {
			return s, fmt.Sprintf("it sets the variable %q, which is not taken from a registry", text.Line(e.Name, 80))
		}
		s.Env[e.Name] = value
	}
	return s, ""
}

// placeholder is a variable within a value.
var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_-]*)\}`)

// resolve gives the value there is. needs names what only the user can give.
func (i input) resolve() (value string, given bool, needs string) {
	value = i.Value
	if value == "" {
		value = i.Default
	}
	if value == "" {
		if i.Required {
			needs = i.Name
			if needs == "" {
				needs = "a value"
			}
		}
		return "", false, needs
	}
	value = placeholder.ReplaceAllStringFunc(value, func(found string) string {
		v, known := i.Variables[found[1:len(found)-1]]
		if !known {
			return found
		}
		inner, ok, _ := v.resolve()
		if !ok {
			needs = found
		}
		return inner
	})
	if needs != "" && !i.Required && i.Value == "" {
		return "", false, ""
	}
	return value, needs == "", needs
}

func needsUser(needs, what string, names ...string) string {
	for _, n := range names {
		if n != "" {
			needs = n
		}
	}
	return fmt.Sprintf("it needs the %s %q from you: define the server in ~/MCPs with it", what, text.Line(needs, 80))
}
