package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// variables are the forms that are expanded: ${NAME}, ${NAME:-default}, ${env:NAME}, and the words of VS Code and its
// relatives. Anything else, such as $NAME and ${1}, stays as it is.
var variables = regexp.MustCompile(`\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?|env:([A-Za-z_][A-Za-z0-9_]*)|(input|command):[^}]*|(/))\}`)

// braces are OpenCode's forms.
var braces = regexp.MustCompile(`\{(env|file):([^}]+)\}`)

// expander expands the variables of one entry and gathers what is missing. What it gathers holds names, never values.
type expander struct {
	lookup        func(string) (string, bool)
	home, project string
	braces        bool
	literal       bool // nothing is a variable
	missing       []string
}

// expand returns s with its variables replaced. field is for the message when one is missing.
func (x *expander) expand(field, s string) string {
	if x.literal {
		return s
	}
	if x.braces {
		s = braces.ReplaceAllStringFunc(s, func(found string) string {
			m := braces.FindStringSubmatch(found)
			if m[1] == "env" {
				return x.variable(field, m[2])
			}
			return x.lack("field %q uses {file:…}, which is not supported", field)
		})
	}
	if !strings.Contains(s, "${") {
		return s
	}
	return variables.ReplaceAllStringFunc(s, func(found string) string {
		m := variables.FindStringSubmatch(found)
		name, fallback, env, ask, slash := m[1], m[2], m[3], m[4], m[5]
		switch {
		case fallback != "":
			if v, _ := x.lookup(name); v != "" {
				return v
			}
			return fallback[len(":-"):]
		case ask != "":
			return x.lack("field %q uses ${%s:…}, which only an editor can ask for; use ${NAME} and the environment", field, ask)
		case slash != "":
			return "/"
		}
		return x.variable(field, name+env)
	})
}

// variable is the value of name, which must be set; it may be empty.
func (x *expander) variable(field, name string) string {
	if v, ok := x.lookup(name); ok {
		return v
	}
	switch name { // the words of VS Code and its relatives
	case "userHome":
		return x.home
	case "pathSeparator":
		return "/"
	case "workspaceFolder", "workspaceFolderBasename":
		return x.folder(field, name)
	}
	return x.lack("field %q needs the variable %s, which is not set", field, name)
}

func (x *expander) folder(field, word string) string {
	switch {
	case x.project == "":
		return x.lack("field %q uses ${%s}, and no project directory is given", field, word)
	case word == "workspaceFolderBasename":
		return filepath.Base(x.project)
	}
	return x.project
}

func (x *expander) lack(format string, args ...any) string {
	x.missing = append(x.missing, fmt.Sprintf(format, args...))
	return ""
}
