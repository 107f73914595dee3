package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// builder turns one entry into a Server. Every fault of the entry turns off that server alone.
type builder struct {
	entry    entry
	dialect  *dialect
	src      Sources
	problems []Problem
	off      []string
	server   Server
}

// build reads the entry. The result always has its name and place.
func (b *builder) build() Server {
	f := b.entry.fields
	s := &b.server
	s.Name, s.Source, s.Origin, s.fields = b.entry.name, b.entry.pos, b.dialect.origin, f
	s.Description = b.text("description")
	if s.Description == "" {
		s.Description = b.entry.description
	}
	b.transport()
	if s.Transport == Stdio {
		b.stdio()
	} else {
		b.remote()
	}
	s.StartTimeout = b.duration(startKeys, 0)
	s.CallTimeout = b.duration(callKeys, b.dialect.timeout)
	s.OnlyTools = b.names("includeTools", "enabled_tools", "enabledTools")
	s.HideTools = b.names("excludeTools", "disabled_tools", "disabledTools")
	s.Off = strings.Join(b.off, "; ")
	s.Broken = s.Off != ""
	if f["disabled"] == true || f["enabled"] == false {
		s.Off, s.Broken = "disabled in "+s.Source.String(), false
		b.problems = nil // what is turned off need not be right
	}
	s.Hash = HashOf(*s)
	return *s
}

// broken turns the server off, with a reason that holds no values.
func (b *builder) broken(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	b.off = append(b.off, reason)
	b.problems = append(b.problems, Problem{Server: b.entry.name, Where: b.entry.pos, Message: reason, Fatal: true})
}

func (b *builder) warn(format string, args ...any) {
	b.problems = append(b.problems, Problem{Server: b.entry.name, Where: b.entry.pos, Message: fmt.Sprintf(format, args...)})
}

// transports are the names in use for each transport.
var transports = map[string]Transport{
	"stdio": Stdio, "local": Stdio, "command": Stdio,
	"http": HTTP, "streamable-http": HTTP, "streamablehttp": HTTP, "streamable_http": HTTP, "remote": HTTP, "https": HTTP,
	"sse": SSE,
}

// transport decides by type, else by what is there.
func (b *builder) transport() {
	f := b.entry.fields
	for _, name := range []string{"type", "transport", "transportType"} {
		v := f[name]
		if v == nil {
			continue
		}
		word, _ := v.(string)
		t, known := transports[strings.ToLower(word)]
		if !known {
			b.broken("field %q names no transport that is known: stdio, http (streamable-http) and sse are", name)
		}
		b.server.Transport = t
		return
	}
	address, key := b.address()
	switch {
	case f["command"] != nil:
		b.server.Transport = Stdio
		if key != "" {
			b.warn("has both \"command\" and %q, which is ignored; remove one, or say \"type\"", key)
		}
	case key == "httpUrl":
		b.server.Transport = HTTP
	case key != "" && b.dialect.url != "":
		b.server.Transport = b.dialect.url
	case key != "" && strings.HasSuffix(strings.TrimRight(strings.SplitN(address, "?", 2)[0], "/"), "/sse"):
		b.server.Transport = SSE
	case key != "":
		b.server.Transport = HTTP
	default:
		b.broken("has neither \"command\" nor \"url\"")
	}
}

// address is the URL as written, with the name of its field.
func (b *builder) address() (address, key string) {
	for _, key := range []string{"httpUrl", "url", "serverUrl"} {
		if s, ok := b.entry.fields[key].(string); ok && s != "" {
			return s, key
		}
	}
	return "", ""
}

func (b *builder) stdio() {
	f, s := b.entry.fields, &b.server
	var command []string
	switch v := f["command"].(type) {
	case string:
		command = []string{v}
	case []any: // OpenCode keeps the arguments with the command
		command = b.list("command", v)
	}
	if v, ok := f["args"]; ok && v != nil {
		list, isList := v.([]any)
		if !isList {
			b.broken("field \"args\" is not an array")
		}
		command = append(command, b.list("args", list)...)
	}
	if len(command) == 0 || strings.TrimSpace(command[0]) == "" {
		b.broken("field \"command\" is not a program's name")
		return
	}
	x := b.expander()
	for i, word := range command {
		where := "command"
		if i > 0 {
			where = fmt.Sprintf("args[%d]", i-1)
		}
		command[i] = x.expand(where, word)
	}
	s.Dir = b.dir(x)
	s.Command, s.Args = b.program(command[0]), command[1:]
	s.Env = b.table(x, "env", "environment")
	for _, name := range b.names("env_vars") { // Codex: passed on as they are
		if v, ok := b.lookup(name); ok {
			s.Env[name] = v
		}
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			b.broken("field %q is no environment variable", "env."+name)
		}
	}
	if f["envFile"] != nil {
		b.warn("field \"envFile\" is not read; put the variables into \"env\" or into thawpool's own environment")
	}
	b.missing(x)
}

// dirKeys are the names that working directories go by.
var dirKeys = []string{"cwd", "workingDirectory", "working_directory"}

// dir is the working directory, absolute; relative ones start at the file's own directory.
func (b *builder) dir(x *expander) string {
	for _, name := range dirKeys {
		v, ok := b.entry.fields[name]
		if !ok || v == nil {
			continue
		}
		s, isText := v.(string)
		if !isText {
			b.broken("field %q is not a string", name)
			return ""
		}
		if s = Tilde(x.expand(name, s), b.src.Home); s == "" {
			return ""
		}
		return b.absolute(s)
	}
	return ""
}

// absolute makes a path absolute that stands in the file.
func (b *builder) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	base, err := filepath.Abs(b.dialect.base(b.entry.pos.File))
	if err != nil {
		return path
	}
	return filepath.Join(base, path)
}

// program makes a command with a slash absolute: from the working directory if the entry has one, else from the file's.
func (b *builder) program(name string) string {
	name = Tilde(name, b.src.Home)
	switch {
	case !strings.Contains(name, "/") || filepath.IsAbs(name):
		return name
	case b.server.Dir != "":
		return filepath.Join(b.server.Dir, name)
	}
	return b.absolute(name)
}

func (b *builder) remote() {
	s := &b.server
	address, key := b.address()
	if key == "" {
		if s.Transport != "" {
			b.broken("has no \"url\"")
		}
		return
	}
	x := b.expander()
	s.URL = strings.TrimSpace(x.expand(key, address))
	s.Headers = b.table(x, "headers", "http_headers")
	for header, v := range b.object("env_http_headers") { // Codex
		name, _ := v.(string)
		s.Headers[header] = x.variable("env_http_headers."+header, name)
	}
	if name := b.text("bearer_token_env_var"); name != "" { // Codex
		s.Headers["Authorization"] = "Bearer " + x.variable("bearer_token_env_var", name)
	}
	for name, value := range s.Headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			b.broken("field %q is no HTTP header", "headers."+name)
		}
	}
	if b.missing(x) {
		return
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		b.broken("field %q is not an http or https address", key) // the address itself may hold a secret
	}
}

func (b *builder) expander() *expander {
	return &expander{
		lookup: b.lookup, home: b.src.Home, project: b.src.Project, braces: b.dialect.braces,
		literal: b.dialect.own && b.entry.fields[literalKey] == true,
	}
}

func (b *builder) lookup(name string) (string, bool) {
	if b.src.Lookup == nil {
		return "", false
	}
	return b.src.Lookup(name)
}

// missing turns the server off when variables are, and tells whether it did.
func (b *builder) missing(x *expander) bool {
	for _, m := range x.missing {
		b.broken("%s", m)
	}
	return len(x.missing) > 0
}
