package registry

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/pyname"
	"github.com/thawpool/thawpool/actors/catalog/text"
)

// item is one element of "servers": since 2025-09 the server.json in an envelope, before that the server.json itself.
type item struct {
	server serverJSON
	ok     bool
	latest bool
	status string
}

// serverJSON is what is used of a server.json document.
type serverJSON struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Version     string  `json:"version"`
	Status      string  `json:"status"`
	Packages    []pkg   `json:"packages"`
	Remotes     []other `json:"remotes"`
}

type pkg struct {
	Type      string     `json:"registryType"`
	Base      string     `json:"registryBaseUrl"`
	ID        string     `json:"identifier"`
	Version   string     `json:"version"`
	Transport other      `json:"transport"`
	Runtime   []argument `json:"runtimeArguments"`
	Arguments []argument `json:"packageArguments"`
	Env       []input    `json:"environmentVariables"`
}

// other is a remote, or the transport of a package.
type other struct {
	Type      string           `json:"type"`
	URL       string           `json:"url"`
	Headers   []input          `json:"headers"`
	Variables map[string]input `json:"variables"`
}

// UnmarshalJSON takes both forms. One that is neither is left out, so that it hides no others.
func (i *item) UnmarshalJSON(raw []byte) error {
	var envelope struct {
		Server json.RawMessage            `json:"server"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(raw, &envelope) != nil {
		return nil
	}
	i.latest = true
	if len(envelope.Server) > 0 {
		var official struct {
			Latest *bool  `json:"isLatest"`
			Status string `json:"status"`
		}
		if json.Unmarshal(envelope.Meta["io.modelcontextprotocol.registry/official"], &official) == nil {
			i.latest = official.Latest == nil || *official.Latest
			i.status = official.Status
		}
		raw = envelope.Server
	}
	i.ok = json.Unmarshal(raw, &i.server) == nil && i.server.Name != ""
	if i.status == "" {
		i.status = i.server.Status
	}
	return nil
}

// maxName bounds a registry's name in bytes; the official one allows 200 characters.
const maxName = 256

// candidate turns an item into what can be added. It is false for items that are not to be shown.
func (i item) candidate(host string) (Candidate, bool) {
	if !i.ok || !i.latest || i.status == "deleted" || text.CheckName(i.server.Name, maxName) != nil {
		return Candidate{}, false
	}
	c := Candidate{Found: catalog.Found{
		Name: i.server.Name, Description: text.Line(i.server.Description, maxDescription),
		Source: host, Version: text.Line(i.server.Version, 64),
	}}
	c.Server.Name = shortName(i.server.Name)
	c.Server.Description = c.Description
	reasons := []string{}
	for _, p := range i.server.Packages {
		s, reason := p.server()
		if reason == "" {
			return c.with(s, p.Type), true
		}
		reasons = append(reasons, reason)
	}
	for _, kind := range []string{"streamable-http", "sse"} { // the newer one first
		for _, r := range i.server.Remotes {
			if r.Type != kind {
				continue
			}
			s, reason := r.server()
			if reason == "" {
				return c.with(s, string(s.Transport)), true
			}
			reasons = append(reasons, reason)
		}
	}
	c.Problem = "it cannot be started or reached from here"
	if len(reasons) > 0 {
		c.Problem = reasons[0]
	}
	return c, true
}

func (c Candidate) with(s config.Server, kind string) Candidate {
	s.Name, s.Description, s.Origin = c.Server.Name, c.Server.Description, "registry"
	s.Hash = config.HashOf(s)
	c.Server, c.Kind = s, kind
	return c
}

// shortName is the last part of a registry's name, in a form that is fit for a config's key and a Python name.
func shortName(name string) string {
	return pyname.Servers.Aliases([]string{path.Base(name)})[path.Base(name)]
}

// What packages may look like: nothing that a package runner could take for an option, a URL or a path.
var (
	npmName  = regexp.MustCompile(`^(?:@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*$`)
	pypiName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	version  = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]*$`)
)

// server is how a package is started; the reason says why it is not.
func (p pkg) server() (s config.Server, reason string) {
	s = config.Server{Transport: config.Stdio, Env: map[string]string{}}
	if p.Transport.Type != "" && p.Transport.Type != "stdio" {
		return s, fmt.Sprintf("its package speaks %s and not stdio", text.Line(p.Transport.Type, 40))
	}
	if p.Version != "" && !version.MatchString(p.Version) {
		return s, "its version is not a plain version"
	}
	switch p.Type {
	case "npm":
		if !npmName.MatchString(p.ID) || !oneOf(p.Base, "", "https://registry.npmjs.org") {
			return s, "its package is not one of registry.npmjs.org"
		}
		s.Command, s.Args = "npx", []string{"-y", pinned(p.ID, "@", p.Version)}
	case "pypi":
		if !pypiName.MatchString(p.ID) || !oneOf(p.Base, "", "https://pypi.org") {
			return s, "its package is not one of pypi.org"
		}
		s.Command, s.Args = "uvx", []string{pinned(p.ID, "==", p.Version)}
	default:
		return s, fmt.Sprintf("packages of type %q are not supported, npm and pypi are", text.Line(p.Type, 40))
	}
	for _, a := range p.Runtime {
		if a.Value != "-y" && a.Name != "-y" {
			return s, "it asks for options of the package runner, which are not taken from a registry"
		}
	}
	return p.inputs(s)
}

var (
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// steering variables change which package is fetched, or what is loaded with it.
	steering = regexp.MustCompile(`(?i)^(npm_|uv_|pip_|ld_|node_|python|path$|home$)`)
)

func pinned(id, at, v string) string {
	if v == "" || v == "latest" {
		return id
	}
	return id + at + v
}

func oneOf(s string, list ...string) bool {
	for _, l := range list {
		if strings.TrimRight(s, "/") == l {
			return true
		}
	}
	return false
}

// server is how a remote is reached; the reason says why it is not.
func (r other) server() (s config.Server, reason string) {
	s = config.Server{Transport: config.HTTP, Headers: map[string]string{}}
	if r.Type == "sse" {
		s.Transport = config.SSE
	}
	address, _, needs := input{Value: r.URL, Variables: r.Variables}.resolve()
	if needs != "" {
		return s, needsUser(needs, "address part")
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") {
		return s, "its address is not an http or https address"
	}
	s.URL = address
	for _, h := range r.Headers {
		value, given, needs := h.resolve()
		if needs != "" {
			return s, needsUser(needs, "header", h.Name)
		}
		if !given {
			continue
		}
		if !httpguts.ValidHeaderFieldName(h.Name) || !httpguts.ValidHeaderFieldValue(value) {
			return s, fmt.Sprintf("its header %q is not valid", text.Line(h.Name, 80))
		}
		s.Headers[h.Name] = value
	}
	return s, ""
}
