package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// self recognises definitions that would start thawpool, or the reference bridge, which reads the same files. Loops
// through programs that it cannot look into end by EnvDepth.
type self struct {
	allow bool
	info  os.FileInfo // of the running program; nil when unknown
}

// program is the name that thawpool is installed under.
const program = "thawpool"

// reference are the names of the bridge whose files are read, in its package and its script.
var reference = []string{"mcp-server-code-execution-mode", "mcp_server_code_execution_mode"}

func newSelf(src Sources) *self {
	s := &self{allow: src.AllowSelf}
	if info, err := os.Stat(src.Self); err == nil {
		s.info = info
	}
	return s
}

// startedBy says why d would start thawpool; empty when it would not, or when that is allowed.
func (s *self) startedBy(d Server) string {
	if s.allow || d.Transport != Stdio || d.Command == "" {
		return ""
	}
	if s.is(d.Command) {
		return "it would start thawpool itself"
	}
	for _, word := range words(d.Command, d.Args) {
		for _, name := range reference {
			if strings.Contains(word, name) {
				return "it would start the bridge whose definitions these are"
			}
		}
		if strings.Contains(word, "/") && s.is(word) || named(word) {
			return "it would start thawpool itself"
		}
	}
	return ""
}

// words are the command and its arguments, taken apart where an argument is a line for a shell.
func words(command string, args []string) []string {
	list := []string{command}
	for _, a := range args {
		list = append(list, strings.FieldsFunc(a, func(r rune) bool { return strings.ContainsRune(" \t\n'\"`;&|()<>=$", r) })...)
	}
	return list
}

// named goes by the name alone: thawpool, a path to it, or its module with a version. A path to a directory, as a checkout
// that a file server may read, is none.
func named(word string) bool {
	word, _, _ = strings.Cut(word, "@")
	switch {
	case filepath.Base(word) != program:
		return false
	case filepath.IsAbs(word):
		info, err := os.Stat(word)
		return err != nil || !info.IsDir() // it may be a path in a container
	default:
		return word == program || strings.HasPrefix(word, "github.com/thawpool/")
	}
}

// is tells whether path, after PATH and symlinks, is the running program.
func (s *self) is(path string) bool {
	if s.info == nil {
		return false
	}
	found, err := exec.LookPath(path)
	if err != nil {
		return false
	}
	info, err := os.Stat(found)
	return err == nil && os.SameFile(info, s.info)
}
