// Package pyname gives names of servers, tools and arguments a form that Python code can write: an ASCII identifier, the
// same each time for the same set of names, whatever their order.
//
// The rules, in order:
//   - a name that is such an identifier already, does not begin with an underscore and is not reserved, keeps itself;
//   - else letters of other scripts are written in ASCII ("über" is uber), each run of anything else becomes one
//     underscore, and underscores at the ends go;
//   - a name that begins with a digit gets "tool_" or "server_" before it;
//   - a reserved name, and one that began with an underscore, gets an underscore after it (class_, init_);
//   - where two names would meet, every one that does not keep itself ends in four or more hex digits of its SHA-256.
//
// Names always work exactly as they are in call_tool and in subscripts; an alias is for attribute and import syntax.
package pyname

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/mozillazg/go-unidecode"
)

// Kind tells what is named: it decides the prefix and which names are reserved.
type Kind struct {
	prefix   string
	reserved map[string]bool
}

// maxAlias bounds an alias in bytes; longer ones end in a hash.
const maxAlias = 64

// keywords are Python's hard keywords (keyword.kwlist of CPython 3.14).
var keywords = set(`False None True and as assert async await break class continue def del elif else except finally for
	from global if import in is lambda nonlocal not or pass raise return try while with yield`)

var (
	// Tools are attributes of a server's proxy object; its own helpers keep their names.
	Tools = Kind{prefix: "tool_", reserved: set(`alias call call_tool describe docs help list_tools mro name
		query_tool_docs search_tool_docs self tools`)}
	// Servers are read as mcp_<alias> and mcp.servers.<alias>; mcp_servers is the mapping of all.
	Servers = Kind{prefix: "server_", reserved: set(`runtime servers`)}
	// Arguments are keyword arguments of a tool's method.
	Arguments = Kind{prefix: "arg_", reserved: set(`self`)}
)

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
	other      = regexp.MustCompile(`[^A-Za-z0-9]+`)
)

// Fits tells whether name can be written in Python as it is.
func (k Kind) Fits(name string) bool {
	return len(name) <= maxAlias && identifier.MatchString(name) && !keywords[name] && !k.reserved[name]
}

// Identifier tells whether s is an ASCII identifier that Python accepts as a function's name, underscores included.
func Identifier(s string) bool {
	return len(s) <= maxAlias && !keywords[s] && identifier.MatchString(strings.TrimLeft(s, "_"))
}

// Aliases maps each of names to its alias. No two aliases are the same; equal names count once.
func (k Kind) Aliases(names []string) map[string]string {
	aliases := make(map[string]string, len(names))
	taken := make(map[string]int, len(names))
	wanted := map[string]string{}
	for _, name := range names {
		if _, seen := aliases[name]; seen {
			continue
		}
		if k.Fits(name) {
			aliases[name] = name
			taken[name]++
		} else if _, seen := wanted[name]; !seen {
			wanted[name] = k.shape(name)
			taken[wanted[name]]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		alias := wanted[name]
		for digits := 4; taken[alias] > 1 || (alias != wanted[name] && taken[alias] > 0); digits += 4 {
			alias = shorten(wanted[name], digits+1) + "_" + digest(name)[:digits]
		}
		if alias != wanted[name] {
			taken[alias]++
		}
		aliases[name] = alias
	}
	return aliases
}

// shape is the alias that name would like to have.
func (k Kind) shape(name string) string {
	s := strings.Trim(other.ReplaceAllString(unidecode.Unidecode(name), "_"), "_")
	if len(s) > maxAlias || s == "" {
		s = strings.TrimLeft(shorten(s, 9)+"_"+digest(name)[:8], "_")
	}
	if s[0] >= '0' && s[0] <= '9' {
		s = k.prefix + shorten(s, len(k.prefix))
	}
	if strings.HasPrefix(name, "_") || keywords[s] || k.reserved[s] {
		s = shorten(s, 1) + "_"
	}
	return s
}

// shorten leaves room for n more bytes below maxAlias.
func shorten(s string, n int) string { return s[:min(len(s), maxAlias-n)] }

func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}
