package catalog

import (
	"fmt"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/text"
)

// helpers are what the capability summary tells of the discovery functions in the sandbox.
const helpers = "In the code: `from mcp import runtime`; runtime.discovered_servers() lists servers, " +
	"await runtime.search_tool_docs(\"words\") finds tools, await runtime.query_tool_docs(server, tool, detail=\"full\") " +
	"gives signatures and schemas; call a tool with await mcp_<alias>.<tool>(name=value)."

// maxFaults bounds the faults that a summary tells one by one.
const maxFaults = 10

// CapabilitySummary is one paragraph that says what the sandboxed code can reach, and which definitions cannot be used.
func (s *Snapshot) CapabilitySummary() string {
	list := s.names(maxShort)
	if list == "" {
		list = "No MCP servers are configured."
	} else {
		list = fmt.Sprintf("%d MCP servers can be called: %s.", s.usable(), list)
	}
	if faults := s.faults(); len(faults) > 0 {
		for i := range faults {
			faults[i] = text.Line(faults[i], maxShort)
		}
		list += " Not usable: " + strings.Join(faults[:min(len(faults), maxFaults)], "; ")
		if more := len(faults) - maxFaults; more > 0 {
			list += fmt.Sprintf("; and %d more faults", more)
		}
		list += "."
	}
	return "run_python runs Python in a fresh sandbox without network. " + list + " " + helpers
}

// faults are the problems for which a file or a server cannot be used.
func (s *Snapshot) faults() (list []string) {
	for _, p := range s.problems {
		if p.Fatal {
			list = append(list, p.String())
		}
	}
	return list
}

// Description names the usable servers in at most limit bytes, and says where to read of definitions that cannot be used.
// It is empty when there are none of either.
func (s *Snapshot) Description(limit int) string {
	n := len(s.faults())
	if n == 0 {
		return s.names(limit)
	}
	end := fmt.Sprintf("; %d faults, see runtime.capability_summary()", n)
	names := s.names(limit - len(end))
	if names == "" {
		names = "none"
	}
	return names + end
}

// names lists the aliases of usable servers in at most limit bytes and says how many are left out. It is empty when there
// are none. Aliases are plain identifiers: nothing in it is a stranger's text.
func (s *Snapshot) names(limit int) string {
	var b strings.Builder
	left := s.usable()
	for _, e := range s.servers {
		if e.def.Off != "" {
			continue
		}
		part := e.alias
		if b.Len() > 0 {
			part = ", " + part
		}
		if b.Len()+len(part)+len(", and 9999 more") > limit {
			if b.Len() == 0 {
				return fmt.Sprintf("%d servers", left)
			}
			return fmt.Sprintf("%s, and %d more", b.String(), left)
		}
		b.WriteString(part)
		left--
	}
	return b.String()
}

func (s *Snapshot) usable() int {
	n := 0
	for _, e := range s.servers {
		if e.def.Off == "" {
			n++
		}
	}
	return n
}
