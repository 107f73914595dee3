package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/index"
	"github.com/thawpool/thawpool/actors/catalog/schema"
	"github.com/thawpool/thawpool/actors/catalog/text"
	"github.com/thawpool/thawpool/runtime/guest"
)

// ErrUnlisted tells that the server is there, but its tools are not known. Connect to it, then take them in with Snapshot.With.
var ErrUnlisted = errors.New("tools of the server are not known yet")

// Filter says what may be shown. A nil Filter shows everything.
type Filter func(server config.Server, tool Tool) bool

// Snapshot is the catalog at one moment. It never changes, and is safe for concurrent use.
type Snapshot struct {
	servers  []*server // by name
	byName   map[string]*server
	byAlias  map[string]*server
	problems []config.Problem
	index    *index.Index // shared by all snapshots; what is found is looked up in this one
}

type server struct {
	def         config.Server
	alias       string
	description string   // cleaned and bounded
	tools       *toolset // nil while not known
}

// find is by exact name first, then by alias.
func (s *Snapshot) find(name string) *server {
	if e := s.byName[name]; e != nil {
		return e
	}
	return s.byAlias[name]
}

// Servers lists the servers, by name. Those that the user turned off are left out; broken ones are told with the reason.
func (s *Snapshot) Servers() []ServerInfo {
	list := []ServerInfo{}
	for _, e := range s.servers {
		if e.def.Off == "" || e.def.Broken {
			list = append(list, e.info())
		}
	}
	return list
}

// Definitions lists every server as configured, by name, those turned off included.
func (s *Snapshot) Definitions() []config.Server {
	list := make([]config.Server, len(s.servers))
	for i, e := range s.servers {
		list[i] = e.def
	}
	return list
}

// Problems lists what is wrong in the config files.
func (s *Snapshot) Problems() []config.Problem { return slices.Clone(s.problems) }

func (e *server) info() ServerInfo {
	i := ServerInfo{Name: e.def.Name, Alias: e.alias, Description: e.description, State: StateUnknown}
	switch {
	case e.def.Off != "":
		i.State, i.Error = StateOff, e.def.Off
	case e.tools != nil:
		i.State = StateKnown
	}
	return i
}

// Guest is what a run frame tells of the server called name, which must resolve.
func (s *Snapshot) Guest(name string) guest.Server {
	e := s.find(name)
	if e == nil {
		return guest.Server{Name: name}
	}
	return guest.Server{Name: e.def.Name, Alias: e.alias, Description: e.description}
}

// Resolve finds a server by exact name or alias. The error is a *guest.CallError that names the nearest ones.
func (s *Snapshot) Resolve(name string) (config.Server, error) {
	e, err := s.resolve(name)
	if err != nil {
		return config.Server{}, err
	}
	return e.def, nil
}

func (s *Snapshot) resolve(name string) (*server, error) {
	e := s.find(name)
	if e == nil {
		return nil, s.unknownServer(name)
	}
	if e.def.Off != "" {
		return nil, &guest.CallError{Type: guest.ErrUnknownServer, Message: fmt.Sprintf("server %q is turned off: %s", e.def.Name, e.def.Off)}
	}
	return e, nil
}

func (s *Snapshot) unknownServer(name string) error {
	var names []string
	for _, e := range s.servers {
		if e.def.Off == "" {
			names = append(names, e.def.Name)
		}
	}
	return &guest.CallError{
		Type:    guest.ErrUnknownServer,
		Message: fmt.Sprintf("there is no server %s%s", quote(name), suggest(name, names, "servers")),
	}
}

// Known tells whether the tools of the server called name are known.
func (s *Snapshot) Known(name string) bool {
	e := s.find(name)
	return e != nil && e.tools != nil
}

// With is s with the tools of one server taken from latest, when s does not know them. A run uses it after connecting, so
// that all else stays as it was.
func (s *Snapshot) With(latest *Snapshot, name string) *Snapshot {
	mine, now := s.find(name), (*server)(nil)
	if mine != nil {
		now = latest.byName[mine.def.Name]
	}
	if mine == nil || mine.tools != nil || now == nil || now.tools == nil || now.def.Hash != mine.def.Hash {
		return s
	}
	merged := *mine
	merged.tools = now.tools
	next := *s
	next.servers = slices.Clone(s.servers)
	next.servers[slices.Index(next.servers, mine)] = &merged
	next.byName, next.byAlias = maps.Clone(s.byName), maps.Clone(s.byAlias)
	next.byName[merged.def.Name], next.byAlias[merged.alias] = &merged, &merged
	return &next
}

// ResolveTool finds a tool by exact name or alias. The error is a *guest.CallError with the nearest names of those that show
// lets be shown, or ErrUnlisted.
func (s *Snapshot) ResolveTool(serverName, toolName string, show Filter) (Tool, error) {
	_, t, err := s.tool(serverName, toolName, show)
	if err != nil {
		return Tool{}, err
	}
	return t.Tool, nil
}

func (s *Snapshot) tool(serverName, toolName string, show Filter) (*server, *tool, error) {
	e, err := s.resolve(serverName)
	if err != nil {
		return nil, nil, err
	}
	if e.tools == nil {
		return nil, nil, fmt.Errorf("server %q: %w", e.def.Name, ErrUnlisted)
	}
	if t := e.tools.find(toolName); t != nil {
		return e, t, nil
	}
	var names []string
	for _, t := range e.tools.tools {
		if show == nil || show(e.def, t.Tool) {
			names = append(names, t.alias)
		}
	}
	return nil, nil, &guest.CallError{
		Type:    guest.ErrUnknownTool,
		Message: fmt.Sprintf("server %q has no tool %s%s", e.def.Name, quote(toolName), suggest(toolName, names, "tools")),
	}
}

// CheckArguments looks at args, a JSON object, before the server is called. The error is a *guest.CallError with every
// fault and the signature, or that of ResolveTool.
func (s *Snapshot) CheckArguments(serverName, toolName string, args json.RawMessage) error {
	e, t, err := s.tool(serverName, toolName, nil)
	if err != nil {
		return err
	}
	if err := t.check(args); err != nil {
		return &guest.CallError{
			Type:    guest.ErrArguments,
			Message: fmt.Sprintf("%s.%s: %v\nsignature: %s", e.alias, t.alias, err, t.describe(e.def.Name).Line),
		}
	}
	return nil
}

const maxSuggested = 20 // names listed when none is near

// suggest ends a message about an unknown name: with the nearest names, else with the first ones there are.
func suggest(name string, names []string, what string) string {
	if near := schema.Nearest(name, names); len(near) > 0 {
		for i := range near {
			near[i] = quote(near[i])
		}
		return ", did you mean " + strings.Join(near, " or ") + "?"
	}
	if len(names) == 0 {
		return "; there are no " + what
	}
	more := ""
	if len(names) > maxSuggested {
		more = fmt.Sprintf(" and %d more", len(names)-maxSuggested)
		names = names[:maxSuggested]
	}
	return "; the " + what + " are " + strings.Join(names, ", ") + more
}

// quote shows a name that may come from anyone.
func quote(name string) string { return schema.Quote(text.Line(name, maxToolName)) }
