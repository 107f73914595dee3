package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/text"
)

// Sources say where definitions are read from. Of two servers with one name the first counts and the other is a
// Problem; the order is: Files, EnvFile, Dirs, Added, Discover, each in its own order, the files of a directory by name, the
// servers of a file from top to bottom.
type Sources struct {
	Files    []string // given by flag; a missing one is a Problem
	EnvFile  string   // from MCP_SERVERS_CONFIG; a missing one is a Problem
	Dirs     []string // each *.json and *.jsonc directly in them; a missing directory is none
	Added    string   // the file that Save writes; a missing one is none
	Discover []string // MCP clients whose own files are read as well, of Clients
	Project  string   // directory whose project-level files of those clients count too; empty means none

	Home      string                      // the user's home directory
	Lookup    func(string) (string, bool) // environment for ${VAR} and for where clients keep their files
	Self      string                      // path of the running program, so that it does not start itself
	AllowSelf bool
	Depth     int // how many thawpools started one another above this one
}

// Environment variables that this package goes by.
const (
	// EnvConfig and EnvAllowSelf are those of the reference bridge.
	EnvConfig    = "MCP_SERVERS_CONFIG"
	EnvAllowSelf = "MCP_BRIDGE_ALLOW_SELF_SERVER"
	// EnvDepth marks what a thawpool starts, so that one started by one of its servers sees the loop.
	EnvDepth = "THAWPOOL_DEPTH"
)

// maxDepth bounds thawpools that start one another where that is allowed.
const maxDepth = 3

// maxName bounds a server's name in bytes.
const maxName = 128

// Result is what one look at all sources gave.
type Result struct {
	Servers  []Server // in order of precedence, one a name; those with Off included
	Problems []Problem
}

// DefaultSources are ~/MCPs and what the environment asks for.
func DefaultSources() (Sources, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Sources{}, fmt.Errorf("find server definitions: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return Sources{}, fmt.Errorf("find own program: %w", err)
	}
	depth, _ := strconv.Atoi(os.Getenv(EnvDepth)) // anything else was not set by us
	return Sources{
		EnvFile:   os.Getenv(EnvConfig),
		Dirs:      []string{filepath.Join(home, "MCPs")},
		Home:      home,
		Lookup:    os.LookupEnv,
		Self:      self,
		AllowSelf: slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(os.Getenv(EnvAllowSelf))),
		Depth:     depth,
	}, nil
}

// DepthMark is the environment entry that every started server gets.
func DepthMark(depth int) string { return EnvDepth + "=" + strconv.Itoa(depth+1) }

// Load reads all sources once.
func Load(src Sources) Result {
	if src.Depth > 0 && (!src.AllowSelf || src.Depth >= maxDepth) {
		return Result{Problems: []Problem{{
			Where: Position{File: EnvDepth},
			Message: fmt.Sprintf("this thawpool was started by a server of another thawpool (%d above it), so it starts no "+
				"servers; take it out of the other's definitions, or set %s=1 in its env", src.Depth, EnvAllowSelf),
			Fatal: true,
		}}}
	}
	l := &loader{src: src, self: newSelf(src), seen: map[string]Position{}}
	for _, f := range l.files() {
		l.file(f)
	}
	return l.result
}

// loader gathers one Result.
type loader struct {
	src    Sources
	self   *self
	seen   map[string]Position // names that are taken
	result Result
}

// source is one file to read.
type source struct {
	path    string
	must    bool // told when missing
	dialect *dialect
}

// files lists what there is to read, in order.
func (l *loader) files() []source {
	var list []source
	for _, path := range l.src.Files {
		list = append(list, l.given(path)...)
	}
	if l.src.EnvFile != "" {
		list = append(list, l.given(l.src.EnvFile)...)
	}
	for _, dir := range l.src.Dirs {
		list = append(list, l.inDir(dir, false, &mcps)...)
	}
	if l.src.Added != "" {
		list = append(list, source{path: l.src.Added, dialect: &own})
	}
	for _, name := range l.src.Discover {
		client, ok := clients[name]
		if !ok {
			l.problem("", Position{File: "discover"}, true, "there is no client %q to discover; known are %s", name, strings.Join(Clients(), ", "))
			continue
		}
		for _, path := range client.files(l.src) {
			list = append(list, source{path: path, dialect: &client.dialect})
		}
	}
	return list
}

// given is a path that the user named: a file, or a directory of files.
func (l *loader) given(path string) []source {
	path = Tilde(path, l.src.Home)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return l.inDir(path, true, &file)
	}
	return []source{{path: path, must: true, dialect: &file}}
}

func (l *loader) inDir(dir string, must bool, d *dialect) (list []source) {
	files, err := FilesIn(dir)
	switch {
	case err != nil && (must || !errors.Is(err, fs.ErrNotExist)):
		l.problem("", Position{File: dir}, true, "%v", err)
	case must && len(files) == 0:
		l.problem("", Position{File: dir}, false, "no *.json and no *.jsonc in this directory")
	}
	for _, path := range files {
		if path != l.src.Added { // the state directory may be this one
			list = append(list, source{path: path, dialect: d})
		}
	}
	return list
}

// FilesIn lists the files of definitions that are directly in dir, by name.
func FilesIn(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !strings.HasPrefix(e.Name(), ".") && (ext == ".json" || ext == ".jsonc") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

// file reads one file into the result.
func (l *loader) file(f source) {
	raw, err := read(f.path)
	name := NameOf(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !f.must:
		return
	case err != nil:
		l.problem("", Position{File: name}, true, "%v", err)
		return
	}
	parse := parseJSON
	if filepath.Ext(name) == ".toml" {
		parse = parseTOML
	}
	parsed := parse(name, raw, f.dialect, l.src)
	l.result.Problems = append(l.result.Problems, parsed.problems...)
	for _, e := range parsed.entries {
		l.entry(e, f.dialect)
	}
}

// entry takes one server in, unless its name is bad or taken.
func (l *loader) entry(e entry, d *dialect) {
	if err := CheckServerName(e.name); err != nil {
		l.problem(text.Line(e.name, maxName), e.pos, true, "%v", err)
		return
	}
	if first, taken := l.seen[e.name]; taken {
		l.problem(e.name, e.pos, false, "is defined again at %s; the definition at %s counts", e.pos, first)
		return
	}
	l.seen[e.name] = e.pos
	b := &builder{entry: e, dialect: d, src: l.src}
	s := b.build()
	l.result.Problems = append(l.result.Problems, b.problems...)
	if reason := l.self.startedBy(s); reason != "" {
		l.problem(e.name, e.pos, true, "is skipped: %s; set %s=1 to allow it", reason, EnvAllowSelf)
		return
	}
	l.result.Servers = append(l.result.Servers, s)
}

func (l *loader) problem(server string, at Position, fatal bool, format string, args ...any) {
	l.result.Problems = append(l.result.Problems, Problem{Server: server, Where: at, Message: fmt.Sprintf(format, args...), Fatal: fatal})
}

// CheckServerName refuses names that could be taken for something else: paths, and what text.CheckName refuses.
func CheckServerName(name string) error {
	if err := text.CheckName(name, maxName); err != nil {
		return fmt.Errorf("server name %w", err)
	}
	if strings.ContainsAny(name, `/\`) || name == "." || name == ".." {
		return fmt.Errorf("server name %w: %q looks like a path", text.ErrName, name)
	}
	return nil
}

// Tilde expands a leading ~/.
func Tilde(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	if path == "~" && home != "" {
		return home
	}
	return path
}
