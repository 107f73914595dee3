package catalog

import (
	"fmt"
	"strings"
)

// helpers are what the capability summary tells of the discovery functions in the sandbox.
const helpers = "In the code: `from mcp import runtime`; runtime.discovered_servers() lists servers, " +
	"await runtime.search_tool_docs(\"words\") finds tools, await runtime.query_tool_docs(server, tool, detail=\"full\") " +
	"gives signatures and schemas; call a tool with await mcp_<alias>.<tool>(name=value)."

// CapabilitySummary is one paragraph that says what the sandboxed code can reach. It names servers only.
func (s *Snapshot) CapabilitySummary() string {
	list := s.Description(maxShort)
	if list == "" {
		list = "No MCP servers are configured."
	} else {
		list = fmt.Sprintf("%d MCP servers can be called: %s.", s.usable(), list)
	}
	return "run_python runs Python in a fresh sandbox without network. " + list + " " + helpers
}

// Description lists the aliases of usable servers in at most limit bytes and says how many are left out. It is empty when
// there are none. Aliases are plain identifiers: nothing in it is a stranger's text.
func (s *Snapshot) Description(limit int) string {
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
