package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	koanfmaps "github.com/knadh/koanf/maps"
	"github.com/knadh/koanf/parsers/json"
	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/upstream"
)

// delim joins nested keys of a file: "pool: {size: 4}" is the same as "pool-size: 4".
const delim = "-"

// layer is one source of values, by option name.
type layer struct {
	values map[string]any
	tables map[string]map[string]any // of profiles, which only a file has
	source func(name string) string  // how an error names where a value came from
}

// fromDefault is the source of a value that nothing has set.
const fromDefault = "default"

// load sets every option that no flag has set: from THAWPOOL_*, else MCP_BRIDGE_*, else the file. It reports all problems
// at once. warnings are for the log, tables are the file's profiles.
func load(opts []option, flags *pflag.FlagSet, configFile string) (
	sources map[string]string, tables map[string]map[string]any, warnings []string, err error,
) {
	own, unknown := envLayer(opts)
	for _, name := range unknown {
		warnings = append(warnings, fmt.Sprintf("the variable %s is no option of thawpool", name))
	}
	legacy, ignored := legacyLayer(opts)
	warnings = append(warnings, ignored...)
	inFile, fileErr := fileLayer(opts, configFile)
	errs := []error{fileErr}
	sources = map[string]string{}
	for _, o := range opts {
		sources[o.name] = fromDefault
		if flags.Lookup(o.name).Changed {
			sources[o.name] = "flag --" + o.name
			continue
		}
		for _, l := range []layer{own, legacy, inFile} {
			v, ok := l.values[o.name]
			if !ok {
				continue
			}
			sources[o.name] = l.source(o.name)
			if err := set(o.value, v); err != nil {
				errs = append(errs, &FieldError{Field: o.name, Source: sources[o.name], Err: err})
			}
			break
		}
	}
	for profile, table := range inFile.tables {
		for name := range table {
			sources[profileField(profile, name)] = inFile.source(name)
		}
	}
	return sources, inFile.tables, warnings, errors.Join(errs...)
}

// set gives a value of a file or variable to an option.
func set(to pflag.Value, v any) error {
	switch v := v.(type) {
	case string:
		return to.Set(v)
	case float64: // every number of a JSON file
		return to.Set(strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		if _, ok := to.(*listValue); !ok {
			return errors.New("must be one value and is a list")
		}
		words := make([]string, len(v))
		for i := range v {
			words[i] = fmt.Sprint(v[i])
		}
		return to.Set(strings.Join(words, ","))
	case nil:
		return errors.New("has no value")
	case map[string]any:
		return errors.New("must be one value and is a table")
	default:
		return to.Set(fmt.Sprint(v))
	}
}

// envLayer reads THAWPOOL_*. A variable that is set to nothing is the same as one that is not set.
func envLayer(opts []option) (l layer, unknown []string) {
	byEnv := map[string]option{}
	for _, o := range opts {
		byEnv[o.env()] = o
	}
	k := koanf.New(delim)
	_ = k.Load(env.Provider(delim, env.Opt{Prefix: envPrefix, TransformFunc: func(name, value string) (string, any) { // never fails
		o, ok := byEnv[name]
		if !ok && !slices.Contains([]string{configEnv, config.EnvDepth, upstream.MarkVariable}, name) {
			unknown = append(unknown, name)
		}
		if !ok || value == "" {
			return "", nil // an empty key is left out
		}
		return o.name, value
	}}), nil)
	slices.Sort(unknown)
	return layer{values: k.All(), source: func(name string) string {
		return "variable " + option{name: name}.env()
	}}, unknown
}

// legacyLayer reads the reference bridge's variables, and says which of them mean nothing here.
func legacyLayer(opts []option) (l layer, warnings []string) {
	l.values = map[string]any{}
	vars := map[string]string{}
	for _, o := range opts {
		if o.legacy == "" {
			continue
		}
		vars[o.name] = legacyPrefix + o.legacy
		if v := os.Getenv(legacyPrefix + o.legacy); v != "" {
			l.values[o.name] = v
		}
	}
	l.source = func(name string) string { return "variable " + vars[name] }
	for name, why := range ignoredLegacy {
		if os.Getenv(legacyPrefix+name) != "" {
			warnings = append(warnings, fmt.Sprintf("the variable %s%s has no effect: %s", legacyPrefix, name, why))
		}
	}
	slices.Sort(warnings)
	return l, warnings
}

const (
	configFlag = "config"
	configEnv  = envPrefix + "CONFIG"
)

// parsers by a file's extension.
var parsers = map[string]koanf.Parser{".yaml": yaml.Parser(), ".yml": yaml.Parser(), ".toml": toml.Parser(), ".json": json.Parser()}

// fileLayer reads the config file: the one named by flag or variable, or the one in the user's config directory.
func fileLayer(opts []option, named string) (layer, error) {
	path, err := configPath(named)
	if path == "" || err != nil {
		return layer{}, err
	}
	name := config.NameOf(path)
	l := layer{source: func(string) string { return "file " + name }}
	var profiles any
	l.values, profiles, err = parseFile(path)
	if err != nil {
		return layer{}, fmt.Errorf("config file %s: %w", name, err)
	}
	var errs []error
	if profiles != nil {
		var wrong []error
		l.tables, wrong = profileTables(profiles)
		for _, err := range wrong {
			errs = append(errs, fmt.Errorf("config file %s: %w", name, err))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.values)) {
		if !slices.ContainsFunc(opts, func(o option) bool { return o.name == key }) {
			errs = append(errs, fmt.Errorf("config file %s: %q is no option%s", name, key, nearest(opts, key)))
		}
	}
	return l, errors.Join(errs...)
}

// parseFile gives a file's values by option name, and what it has for profiles; nil when that is nothing.
func parseFile(path string) (values map[string]any, profiles any, err error) {
	k, err := parse(path)
	if err != nil {
		return nil, nil, err
	}
	raw := k.Raw()
	profiles = raw[profilesKey]
	delete(raw, profilesKey) // flat, the names of profiles would run into those of options
	values, _ = koanfmaps.Flatten(raw, nil, delim)
	return values, profiles, nil
}

// parse reads a file as what its name says it is.
func parse(path string) (*koanf.Koanf, error) {
	parser, ok := parsers[strings.ToLower(filepath.Ext(config.NameOf(path)))]
	if !ok {
		return nil, errors.New("the name must end in .yaml, .yml, .toml or .json")
	}
	k := koanf.New(delim)
	return k, k.Load(file.Provider(path), parser)
}

// configPath finds the config file; "" means there is none.
func configPath(named string) (string, error) {
	if named == "" {
		named = os.Getenv(configEnv)
	}
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", fmt.Errorf("config file: %w", err)
		}
		return named, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", nil // no home, so no file of the user's
	}
	var found []string
	for _, ext := range []string{".yaml", ".yml", ".toml", ".json"} {
		path := filepath.Join(dir, "thawpool", "config"+ext)
		switch _, err := os.Stat(path); {
		case err == nil:
			found = append(found, path)
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("config file: %w", err)
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("config file: there are several, keep one: %s", strings.Join(found, ", "))
	}
	return strings.Join(found, ""), nil
}

// nearest proposes the option that a mistyped key may mean.
func nearest(opts []option, key string) string {
	key = strings.ToLower(strings.ReplaceAll(key, "_", "-"))
	best, least := "", 4 // farther apart they have nothing in common
	for _, o := range opts {
		if d := distance(key, o.name); d < least {
			best, least = o.name, d
		}
	}
	if best == "" {
		return "; thawpool config shows them all"
	}
	return "; did you mean " + best + "?"
}

// distance counts the letters to add, drop or change to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
