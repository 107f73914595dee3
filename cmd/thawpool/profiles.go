package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	koanfmaps "github.com/knadh/koanf/maps"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
)

// profilesKey is the table of a config file that defines pools besides the default one. Only a file can.
const profilesKey = "profiles"

// validProfile keeps names short enough for a tool's schema, and plain in logs, labels and metrics.
var validProfile = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// Profile is one pool of like sandboxes.
type Profile struct {
	Image    string
	Preload  []string
	PoolSize poolSize // goes into Pool
	Pool     pool.Config
	Limits   runtime.Limits

	set map[string]bool // what its table sets itself, by option name
}

// options ties what a profile's table may set to its place in p. Names and forms are those of the options.
func (p *Profile) options() []option {
	return []option{
		{name: "image", value: textValue[string]{p: &p.Image}},
		{name: "preload", value: &listValue{p: &p.Preload}},
		{name: "pool-size", value: &p.PoolSize},
		{name: "pool-max", value: intValue[int]{&p.Pool.Max}},
		{name: "memory", value: (*sizeValue)(&p.Limits.Memory)},
		{name: "pids", value: intValue[int64]{&p.Limits.PIDs}},
		{name: "tmp", value: (*sizeValue)(&p.Limits.Tmp)},
	}
}

// topLevel is the default profile: what the options themselves say.
func (c *Config) topLevel() Profile {
	return Profile{Image: c.Image, Preload: c.Preload, PoolSize: c.PoolSize, Pool: c.Pool, Limits: c.Limits}
}

// profiles are all pools by name, the default one among them.
func (c *Config) profiles() map[string]Profile {
	all := maps.Clone(c.Profiles)
	if all == nil {
		all = map[string]Profile{}
	}
	all[actors.DefaultProfile] = c.topLevel()
	return all
}

// profileNames are the names of all pools, the one first that calls get which name none.
func (c *Config) profileNames() []string {
	names := slices.Sorted(maps.Keys(c.profiles()))
	if i := slices.Index(names, c.Profile); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, c.Profile)
	}
	return names
}

// chosen is the profile of calls that name none.
func (c *Config) chosen() Profile { return c.profiles()[c.Profile] }

// narrow makes p the only profile, for commands that run one kind of sandbox.
func (c *Config) narrow(p Profile) {
	c.Image, c.Preload, c.PoolSize, c.Pool, c.Limits = p.Image, p.Preload, p.PoolSize, p.Pool, p.Limits
	c.Profile, c.Profiles = actors.DefaultProfile, nil
}

// narrow keeps only the chosen profile, in which flags of this very command hold also against the profile's own values.
func (a *app) narrow() {
	p := a.cfg.chosen()
	for _, o := range p.options() {
		if f := a.flags.Lookup(o.name); f.Changed {
			_ = o.value.Set(f.Value.String()) // it has been read before
		}
	}
	a.cfg.narrow(p)
}

// profileField names a value of a profile in errors, and what config says of it.
func profileField(profile, name string) string { return profilesKey + "." + profile + "." + name }

// profileTables gives the tables of a file's profiles by name, flat. v is what the file has for profilesKey.
func profileTables(v any) (tables map[string]map[string]any, errs []error) {
	all, ok := v.(map[string]any)
	if !ok {
		return nil, []error{&FieldError{Field: profilesKey, Err: errors.New("must be a table of profiles by name, such as {sci: {preload: [numpy]}}")}}
	}
	tables = map[string]map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		table, ok := all[name].(map[string]any)
		switch {
		case !validProfile.MatchString(name):
			errs = append(errs, &FieldError{Field: profilesKey, Err: fmt.Errorf("has a profile named %q: use up to 32 letters, digits, - and _", name)})
		case name == actors.DefaultProfile:
			errs = append(errs, &FieldError{Field: profilesKey + "." + name, Err: errors.New("is the file's top level: set its values there")})
		case !ok:
			errs = append(errs, &FieldError{Field: profilesKey + "." + name, Err: fmt.Errorf("must be a table with any of %s", profileKeys())})
		default:
			tables[name], _ = koanfmaps.Flatten(table, nil, delim)
		}
	}
	return tables, errs
}

func profileKeys() string {
	var names []string
	for _, o := range new(Profile).options() {
		names = append(names, o.name)
	}
	return strings.Join(names, ", ")
}

// applyProfiles makes Profiles of the file's tables: the top level's values, and over them each one's own.
func (c *Config) applyProfiles() (errs []error) {
	c.Profiles = map[string]Profile{}
	for _, name := range slices.Sorted(maps.Keys(c.ProfileTables)) {
		p := c.topLevel()
		p.Preload = slices.Clone(p.Preload)
		wrong := p.read(name, c.ProfileTables[name])
		errs = append(append(errs, wrong...), p.validate(name, wrong)...)
		c.Profiles[name] = p
	}
	if c.Profile != actors.DefaultProfile && !slices.Contains(slices.Collect(maps.Keys(c.ProfileTables)), c.Profile) {
		errs = append(errs, &FieldError{Field: "profile", Err: fmt.Errorf("must be one of %s and is %q: the config file's table %s defines more",
			strings.Join(slices.Sorted(maps.Keys(c.profiles())), ", "), c.Profile, profilesKey)})
	}
	return errs
}

// read takes over what the table of that name sets.
func (p *Profile) read(name string, table map[string]any) (errs []error) {
	p.set = map[string]bool{}
	opts := p.options()
	for _, key := range slices.Sorted(maps.Keys(table)) {
		i := slices.IndexFunc(opts, func(o option) bool { return o.name == key })
		var err error
		if i < 0 {
			err = fmt.Errorf("is none of what a profile can set: %s", profileKeys())
		} else {
			p.set[key], err = true, set(opts[i].value, table[key])
		}
		if err != nil {
			errs = append(errs, &FieldError{Field: profileField(name, key), Err: err})
		}
	}
	p.PoolSize.apply(&p.Pool)
	return errs
}

// validate reports what cannot be used of what the profile sets itself and what follows from it; the top level's values are
// told once, there. wrong is what could not even be read.
func (p *Profile) validate(name string, wrong []error) (errs []error) {
	told := func(field string) bool {
		return slices.ContainsFunc(wrong, func(err error) bool {
			var e *FieldError
			return errors.As(err, &e) && e.Field == field
		})
	}
	p.check(func(ok bool, key, format string, args ...any) {
		field := profileField(name, key)
		own := p.set[key] || key == "pool-size" && p.set["pool-max"]
		if !ok && own && !told(field) {
			errs = append(errs, &FieldError{Field: field, Err: fmt.Errorf(format, args...)})
		}
	})
	return errs
}

// check tests what each pool can have of its own. report is told of every test.
func (p *Profile) check(report func(ok bool, field, format string, args ...any)) {
	report(p.Image != "", "image", "must name an image; default is the built-in one")
	report(p.Pool.Max >= 1, "pool-max", "must be at least 1 and is %d", p.Pool.Max)
	report(p.Pool.Size >= 0, "pool-size", "must be 0 or more, or auto, and is %d", p.Pool.Size)
	report(p.Pool.Size <= p.Pool.Max, "pool-size", "must be at most pool-max (%d) and is %d", p.Pool.Max, p.Pool.Size)
	report(p.Pool.Size > 0 || p.Pool.Empty != pool.EmptyRefuse, "pool-size", "must not be 0 with pool-empty refuse: every call would be refused")
	report(p.Pool.Size > 0 || p.Pool.Queue > 0 || p.Pool.Empty != pool.EmptyWait, "pool-size", "must not be 0 with queue 0: no call could ever run")
	l := p.Limits
	report(l.Memory >= minMemory, "memory", "must be at least %s and is %s", sizeText(minMemory), sizeText(l.Memory))
	report(l.PIDs >= minPIDs && l.PIDs <= 32768, "pids", "must be from %d to 32768 and is %d", minPIDs, l.PIDs)
	report(l.Tmp >= minTmp, "tmp", "must be at least %s and is %s", sizeText(minTmp), sizeText(l.Tmp))
	for _, m := range p.Preload {
		report(isModule(m), "preload", "has %q, which is no Python module's name", m)
	}
}

// ownValues are what the profile sets itself, as Set reads it again.
func (p *Profile) ownValues() (own []option) {
	return slices.DeleteFunc(p.options(), func(o option) bool { return !p.set[o.name] })
}

// describeProfiles says in lines what else than the default profile a call may choose; "" when there is nothing else.
func (c *Config) describeProfiles() string {
	if len(c.Profiles) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The argument profile chooses the kind of sandbox; without it a call gets %s. There are:\n", c.Profile)
	all := c.profiles()
	for _, name := range c.profileNames() {
		p := all[name]
		fmt.Fprintf(&b, "- %s: image %s, memory %s, %d processes and threads, /tmp and /workspace %s each", name, p.Image,
			sizeText(p.Limits.Memory), p.Limits.PIDs, sizeText(p.Limits.Tmp))
		if len(p.Preload) > 0 {
			fmt.Fprintf(&b, ", already imported: %s", strings.Join(p.Preload, ", "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
