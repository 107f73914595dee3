package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML reads the TOML of Codex: a table [mcp_servers.NAME] a server. TOML itself refuses a table that stands twice.
func parseTOML(path string, raw []byte, d *dialect, src Sources) parsed {
	var root map[string]any
	if err := toml.Unmarshal(raw, &root); err != nil {
		at := Position{File: path}
		var broken *toml.DecodeError
		if errors.As(err, &broken) {
			at.Line, at.Column = broken.Position()
		}
		return parsed{problems: []Problem{{Where: at, Message: err.Error(), Fatal: true}}}
	}
	var p parsed
	places := tables(path, raw)
	for _, keys := range d.roots(src) {
		servers := root
		for _, k := range keys {
			servers, _ = servers[k].(map[string]any)
		}
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			at, ok := places[keys[0]+"\x00"+name]
			if !ok {
				at = Position{File: path}
			}
			fields, ok := servers[name].(map[string]any)
			if !ok {
				p.problems = append(p.problems, Problem{Server: name, Where: at, Message: "its definition is not a table", Fatal: true})
				continue
			}
			p.entries = append(p.entries, entry{name: name, pos: at, fields: numbers(fields).(map[string]any)})
		}
	}
	return p
}

// tables finds where each [first.second] table begins.
func tables(path string, raw []byte) map[string]Position {
	places := map[string]Position{}
	var p unstable.Parser
	p.Reset(raw)
	at := newLines(raw)
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.Table {
			continue
		}
		var keys []string
		offset := 0
		for k := e.Key(); k.Next(); {
			if len(keys) == 0 {
				offset = int(k.Node().Raw.Offset)
			}
			keys = append(keys, string(k.Node().Data))
		}
		if len(keys) < 2 {
			continue
		}
		name := keys[0] + "\x00" + keys[1]
		if _, met := places[name]; !met {
			pos := at.at(offset)
			pos.File = path
			places[name] = pos
		}
	}
	return places
}

// numbers turns TOML's numbers into what the JSON side has.
func numbers(v any) any {
	switch v := v.(type) {
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case float64:
		return json.Number(fmt.Sprint(v))
	case map[string]any:
		for k, e := range v {
			v[k] = numbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = numbers(e)
		}
	}
	return v
}
