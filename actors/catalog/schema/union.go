package schema

import (
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// literals writes the values of an enum, or their plain types where a Literal cannot hold them.
func literals(values []node) string {
	var lits, types []string
	for _, v := range values {
		switch v.kind() {
		case '"', 't', 'f', '0':
			lit, typ := scalar(v)
			if typ == "float" || len(lit) > 100 {
				lits = append(lits, "")
			} else {
				lits = append(lits, lit)
			}
			types = append(types, typ)
		case 'n':
			lits = append(lits, "None")
			types = append(types, "None")
		case '{':
			types = append(types, "dict[str, Any]")
		case '[':
			types = append(types, "list[Any]")
		}
	}
	if len(values) > maxLiterals || len(lits) != len(values) || slices.Contains(lits, "") {
		return union(types)
	}
	nullable := slices.Contains(lits, "None") && len(lits) > 1
	lits = slices.DeleteFunc(distinct(lits), func(s string) bool { return nullable && s == "None" })
	if len(lits) == 1 && lits[0] == "None" {
		return "None"
	}
	t := "Literal[" + strings.Join(lits, ", ") + "]"
	if nullable {
		t += " | None"
	}
	return t
}

// scalar writes one JSON scalar as Python, with its type.
func scalar(v node) (lit, typ string) {
	switch v.kind() {
	case '"':
		return Quote(v.text()), "str"
	case 't':
		return "True", "bool"
	case 'f':
		return "False", "bool"
	case 'n':
		return "None", "None"
	}
	raw := string(v.v.Value.(hujson.Literal))
	if strings.ContainsAny(raw, ".eE") {
		return raw, "float"
	}
	return raw, "int"
}

// union joins types: each once, None last, Any alone.
func union(parts []string) string {
	var flat []string
	null := false
	for _, p := range distinct(parts) {
		switch p {
		case "Any":
			return "Any"
		case "None":
			null = true
		case "Never":
		default:
			rest, optional := strings.CutSuffix(p, " | None")
			null = null || optional
			flat = append(flat, rest)
		}
	}
	flat = distinct(flat)
	if len(flat) == 0 && !null {
		return "Never"
	}
	if null {
		flat = append(flat, "None")
	}
	return strings.Join(flat, " | ")
}

func distinct(list []string) []string {
	var kept []string
	for _, s := range list {
		if !slices.Contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}
