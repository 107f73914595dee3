package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// text is a string field; one of another type is told and empty.
func (b *builder) text(name string) string {
	v, ok := b.entry.fields[name]
	if !ok || v == nil {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		b.warn("field %q is not a string and is ignored", name)
	}
	return s
}

// list turns the elements of an array into strings, as people write numbers and booleans there.
func (b *builder) list(name string, values []any) []string {
	list := make([]string, 0, len(values))
	for i, v := range values {
		s, ok := scalar(v)
		if !ok {
			b.broken("field \"%s[%d]\" is not a string", name, i)
			continue
		}
		list = append(list, s)
	}
	return list
}

// names is a list of strings under any of keys; nil when there is none.
func (b *builder) names(keys ...string) []string {
	for _, k := range keys {
		v, ok := b.entry.fields[k]
		if !ok || v == nil {
			continue
		}
		list, isList := v.([]any)
		if !isList {
			b.warn("field %q is not an array and is ignored", k)
			continue
		}
		return b.list(k, list)
	}
	return nil
}

func (b *builder) object(name string) map[string]any {
	v, ok := b.entry.fields[name]
	if !ok || v == nil {
		return nil
	}
	m, isObject := v.(map[string]any)
	if !isObject {
		b.broken("field %q is not an object", name)
	}
	return m
}

// table reads an object of strings, expanded, under the first of keys that is there. It is never nil.
func (b *builder) table(x *expander, keys ...string) map[string]string {
	table := map[string]string{}
	for _, k := range keys {
		values := b.object(k)
		for _, name := range slices.Sorted(maps.Keys(values)) {
			s, ok := scalar(values[name])
			if !ok {
				b.broken("field %q is not a string", k+"."+name)
				continue
			}
			table[name] = x.expand(k+"."+name, s)
		}
		if values != nil {
			break
		}
	}
	return table
}

// scalar writes a string, number or boolean as a string.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return fmt.Sprint(v), true
	}
	return "", false
}
