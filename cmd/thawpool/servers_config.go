package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/registry"
	"github.com/thawpool/thawpool/actors/policy"
)

// ServersConfig says which MCP servers code can call, and what it may do there.
type ServersConfig struct {
	Files    []string
	Discover []string // clients whose own files are read
	Policy   policy.Config
	Manage   bool // offer mcp_find and mcp_add as tools

	Instances    int
	Idle         time.Duration
	StartTimeout time.Duration
	CallTimeout  time.Duration

	AddCatalog string // file with servers that could be added
	Registry   string // base URL of a registry with more of them
}

func defaultServersConfig() ServersConfig {
	return ServersConfig{
		Policy:       policy.DefaultConfig(),
		Instances:    actors.DefaultInstances,
		Idle:         actors.DefaultUpstreamIdle,
		StartTimeout: actors.DefaultStartTimeout,
		CallTimeout:  actors.DefaultCallTimeout,
		Registry:     registry.DefaultURL,
	}
}

// validate reports all that is wrong.
func (c *ServersConfig) validate() (errs []error) {
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, &FieldError{Field: field, Err: fmt.Errorf(format, args...)})
		}
	}
	for _, d := range c.Discover {
		check(slices.Contains(config.Clients(), d), "discover", "knows %s and not %q", strings.Join(config.Clients(), ", "), d)
	}
	check(c.Instances >= 1 && c.Instances <= actors.MaxInstances, "upstream-instances", "must be from 1 to %d and is %d", actors.MaxInstances, c.Instances)
	check(c.Idle > 0, "upstream-idle", "must be more than 0")
	check(c.StartTimeout > 0, "upstream-start", "must be more than 0")
	check(c.CallTimeout > 0, "upstream-timeout", "must be more than 0")
	u, err := url.Parse(c.Registry)
	check(err == nil && (c.Registry == "" || u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")), "registry",
		"must be an http or https address and is %q", c.Registry)
	l := c.Policy.Limits
	check(l.Calls >= 1, "run-calls", "must be at least 1 and is %d", l.Calls)
	check(l.Bytes >= 1<<20, "run-bytes", "must be at least 1MiB and is %s", sizeText(l.Bytes))
	check(l.Parallel >= 1, "run-parallel", "must be at least 1 and is %d", l.Parallel)
	if _, err := policy.New(policy.Config{Allow: c.Policy.Allow, Deny: c.Policy.Deny, AllowAdd: c.Policy.AllowAdd, Limits: policy.DefaultLimits()}); err != nil {
		errs = append(errs, err) // it names the flags itself
	}
	return errs
}

// serverOptions are the options of group Servers.
func serverOptions(c *ServersConfig) []option {
	list := func(p *[]string) *listValue { return &listValue{p: p} }
	return []option{
		{name: "servers-config", group: groupServers, value: list(&c.Files), help: "files that define servers, besides ~/MCPs/*.json and MCP_SERVERS_CONFIG"},
		{name: "discover", group: groupServers, value: list(&c.Discover), help: "MCP clients whose own files are read too: " + strings.Join(config.Clients(), ", ")},
		{name: "allow", group: groupServers, value: list(&c.Policy.Allow), help: "patterns of servers and tools that code may call, such as github.get_*; everything when there are none"},
		{name: "deny", group: groupServers, value: list(&c.Policy.Deny), help: "patterns of what it may not; they win"},
		{name: "dry-run-mutations", group: groupServers, value: boolValue{&c.Policy.DryRunMutations}, help: "plan calls of tools that are not marked read-only instead of making them"},
		{name: "run-calls", group: groupServers, value: intValue[int]{&c.Policy.Limits.Calls}, help: "tool calls of one run"},
		{name: "run-bytes", group: groupServers, value: (*sizeValue)(&c.Policy.Limits.Bytes), help: "arguments and results of one run"},
		{name: "run-parallel", group: groupServers, value: intValue[int]{&c.Policy.Limits.Parallel}, help: "tool calls of one run at a time; more of them wait"},
		{name: "upstream-instances", group: groupServers, value: intValue[int]{&c.Instances}, help: "connections to one server, for servers that answer one call at a time"},
		{name: "upstream-idle", group: groupServers, value: (*durationValue)(&c.Idle), help: "a server that nobody has called for this long is stopped"},
		{name: "upstream-start", group: groupServers, value: (*durationValue)(&c.StartTimeout), help: "how long a call waits for a server to start"},
		{name: "upstream-timeout", group: groupServers, value: (*durationValue)(&c.CallTimeout), help: "how long one call to a server may take"},
		{name: "manage-tools", group: groupServers, value: boolValue{&c.Manage}, help: "offer the tools mcp_find and mcp_add to the model"},
		{name: "allow-add", group: groupServers, value: list(&c.Policy.AllowAdd), help: "patterns of names of servers that may be added; adding is off when there are none"},
		{name: "add-catalog", group: groupServers, value: textValue[string]{p: &c.AddCatalog, kind: "file"}, help: "file that defines servers which could be added"},
		{name: "registry", group: groupServers, value: textValue[string]{p: &c.Registry, kind: "url"}, help: "MCP registry where servers that could be added are looked for"},
	}
}
