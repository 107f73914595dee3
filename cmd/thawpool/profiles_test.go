package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The three kinds of file define the same profiles. What one does not set is as the top level, wherever that was set.
func TestProfiles(t *testing.T) {
	for name, text := range map[string]string{
		"c.yaml": "pool-size: 6\npids: 64\npreload: [json]\nprofiles:\n  sci: {image: 'example.com/sci:1', preload: [numpy, pandas], pool-size: 2, pool-max: 4, memory: 2g}\n" +
			"  a-b:\n    pool: {size: 0}\n    preload: []\n    tmp: 8m\n",
		"c.toml": "pool-size = 6\npids = 64\npreload = ['json']\n[profiles.sci]\nimage = 'example.com/sci:1'\npreload = ['numpy', 'pandas']\npool-size = 2\npool-max = 4\n" +
			"memory = '2g'\n[profiles.a-b]\npool.size = 0\npreload = []\ntmp = 8388608\n",
		"c.json": `{"pool": {"size": 6}, "pids": 64, "preload": "json", "profiles": {
			"sci": {"image": "example.com/sci:1", "preload": "numpy,pandas", "pool-size": 2, "pool-max": 4, "memory": 2147483648},
			"a-b": {"pool-size": 0, "preload": "", "tmp": "8MiB"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			cleanEnv(t)
			a, err := loaded(t, "--config", writeFile(t, name, text), "--memory", "100m", "--profile", "sci")
			if err != nil {
				t.Fatal(err)
			}
			all := a.cfg.profiles()
			sci, ab, top := all["sci"], all["a-b"], all["default"]
			if sci.Image != "example.com/sci:1" || strings.Join(sci.Preload, " ") != "numpy pandas" || sci.Pool.Size != 2 || sci.Pool.Max != 4 ||
				sci.Limits.Memory != 2<<30 || sci.Limits.PIDs != 64 || sci.Pool.Queue != top.Pool.Queue {
				t.Errorf("sci: %+v", sci)
			}
			if ab.Image != "default" || len(ab.Preload) != 0 || ab.Pool.Size != 0 || ab.Limits.Memory != 100<<20 || ab.Limits.Tmp != 8<<20 {
				t.Errorf("a-b: %+v", ab)
			}
			if top.Pool.Size != 6 || strings.Join(top.Preload, " ") != "json" || top.Limits.Memory != 100<<20 || top.Limits.PIDs != 64 {
				t.Errorf("default: %+v", top)
			}
			if names := a.cfg.profileNames(); !slices.Equal(names, []string{"sci", "a-b", "default"}) {
				t.Errorf("names %v", names)
			}
		})
	}
}

// Which profile is the default one is an option like others.
func TestProfileOption(t *testing.T) {
	cleanEnv(t)
	file := writeFile(t, "c.yaml", "profile: a\nprofiles: {a: {}, b: {}, c: {}}\n")
	for want, set := range map[string]struct{ env, flag string }{"a": {}, "b": {env: "b"}, "c": {"b", "--profile=c"}, "default": {"", "--profile=default"}} {
		t.Setenv("THAWPOOL_PROFILE", set.env)
		args := []string{"--config", file}
		if set.flag != "" {
			args = append(args, set.flag)
		}
		if a, err := loaded(t, args...); err != nil || a.cfg.Profile != want {
			t.Errorf("%q, %v, want %s", a.cfg.Profile, err, want)
		}
	}
}

// All that is wrong in profiles is told with all else, once each, and with its place.
func TestProfileProblems(t *testing.T) {
	cleanEnv(t)
	path := writeFile(t, "c.yaml", `
pids: 2
profiles:
  bad: {memory: lots, pool-sise: 3, pids: 1, tmp: 5, preload: [os;rm], timeout: 3s, image: "", pool: {size: 9, max: 3}}
  few: {pool-max: 3}
  none: {pool-max: null}
  flat: 7
  default: {memory: 1g}
  "a b": {}
  fine: {}
`)
	_, err := loaded(t, "--config", path, "--profile", "sci", "--queue-wait", "0")
	if err == nil {
		t.Fatal("accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, want := range []string{
		"pids (file " + path + "): must be from 8 to 32768 and is 2",
		"queue-wait (flag --queue-wait): must be more than 0 and is 0s",
		"profiles.bad.memory (file " + path + `): must be a size like 512m or 1GiB and is "lots"`,
		"profiles.bad.pool-sise (file " + path + "): is none of what a profile can set: image, preload, pool-size, pool-max, memory, pids, tmp",
		"profiles.bad.timeout (file " + path + "): is none of what a profile can set: image, preload, pool-size, pool-max, memory, pids, tmp",
		"profiles.bad.pids (file " + path + "): must be from 8 to 32768 and is 1",
		"profiles.bad.tmp (file " + path + "): must be at least 1MiB and is 5",
		"profiles.bad.preload (file " + path + `): has "os;rm", which is no Python module's name`,
		"profiles.bad.image (file " + path + "): must name an image; default is the built-in one",
		"profiles.bad.pool-size (file " + path + "): must be at most pool-max (3) and is 9",
		"profiles.few.pool-size: must be at most pool-max (3) and is 8",
		"profiles.none.pool-max (file " + path + "): has no value",
		"config file " + path + ": profiles.flat: must be a table with any of image, preload, pool-size, pool-max, memory, pids, tmp",
		"config file " + path + ": profiles.default: is the file's top level: set its values there",
		"config file " + path + `: profiles: has a profile named "a b": use up to 32 letters, digits, - and _`,
		`profile (flag --profile): must be one of bad, default, few, fine, none and is "sci": the config file's table profiles defines more`,
	} {
		i := slices.Index(lines, want)
		if i < 0 {
			t.Errorf("lacks %q", want)
			continue
		}
		lines = slices.Delete(lines, i, i+1)
	}
	if len(lines) > 0 {
		t.Errorf("tells besides:\n%s", strings.Join(lines, "\n"))
	}
}

// A table of the wrong kind is refused, and an option whose name begins like the table is none.
func TestProfilesOfTheWrongKind(t *testing.T) {
	for text, want := range map[string]string{
		"profiles: [a]":      "profiles: must be a table of profiles by name",
		"profiles-sci: 1":    `"profiles-sci" is no option`,
		"profile: {sci: {}}": `"profile-sci" is no option`,
	} {
		cleanEnv(t)
		if _, err := loaded(t, "--config", writeFile(t, "c.yaml", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// With auto, bounds follow the profile's own maximum.
func TestProfilePoolSizeAuto(t *testing.T) {
	cleanEnv(t)
	a, err := loaded(t, "--pool-size", "auto", "--config", writeFile(t, "c.yaml", "profiles: {a: {pool-max: 4}, b: {pool-size: 3}, c: {pool-size: auto}}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range a.cfg.profiles() {
		if err := p.Pool.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p := a.cfg.Profiles["a"].Pool; !p.Auto || p.SizeMax != 4 || p.Size != 4 {
		t.Errorf("a: %+v", p)
	}
	if p := a.cfg.Profiles["b"].Pool; p.Auto || p.Size != 3 {
		t.Errorf("b: %+v", p)
	}
}

// A command that runs one sandbox takes the chosen profile, and flags of its own hold against it.
func TestNarrow(t *testing.T) {
	cleanEnv(t)
	a, err := loaded(t, "--profile", "sci", "--memory", "100m", "--config",
		writeFile(t, "c.yaml", "profiles: {sci: {memory: 1g, pids: 9, preload: [json], image: x}, other: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	a.onlyOne()
	c := a.cfg
	if len(c.profiles()) != 1 || c.Limits.Memory != 100<<20 || c.Limits.PIDs != 9 || c.Image != "x" || strings.Join(c.Preload, "") != "json" || c.Pool.Max != 1 {
		t.Errorf("%+v", c)
	}
}

// What config prints of profiles gives the same ones again.
func TestConfigPrintsProfiles(t *testing.T) {
	cleanEnv(t)
	a, err := loaded(t, "--config", writeFile(t, "c.json", `{"profiles": {"sci": {"memory": "1g", "preload": ["os", "json"], "pool-size": "auto"}, "1": {}, "no": {"preload": []}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := a.printConfig(&out); err != nil {
		t.Fatal(err)
	}
	b, err := loaded(t, "--config", writeFile(t, "c.yaml", out.String()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if len(b.cfg.Profiles) != 3 {
		t.Errorf("profiles %+v of\n%s", b.cfg.Profiles, out.String())
	}
	for name, was := range a.cfg.Profiles {
		is := b.cfg.Profiles[name]
		for i, o := range was.options() {
			if now := is.options()[i].value.String(); now != o.value.String() || was.set[o.name] != is.set[o.name] {
				t.Errorf("%s of %s was %q and came back as %q", o.name, name, o.value, now)
			}
		}
	}
	out.Reset()
	var all map[string]struct{ Value, Source string }
	if err := a.printConfigJSON(&out); err != nil || json.Unmarshal(out.Bytes(), &all) != nil {
		t.Fatal(err, out.String())
	}
	if v := all["profiles.sci.memory"]; v.Value != "1GiB" || !strings.HasPrefix(v.Source, "file ") {
		t.Errorf("%+v", v)
	}
}

// What a model reads of profiles names each with what it has.
func TestDescribeProfiles(t *testing.T) {
	cleanEnv(t)
	a, err := loaded(t, "--config", writeFile(t, "c.yaml", "profiles: {sci: {memory: 1g, preload: [json]}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := `The argument profile chooses the kind of sandbox; without it a call gets default. There are:
- default: image default, memory 512MiB, 128 processes and threads, /tmp and /workspace 64MiB each
- sci: image default, memory 1GiB, 128 processes and threads, /tmp and /workspace 64MiB each, already imported: json
`
	if got := a.cfg.describeProfiles(); got != want {
		t.Errorf("%s", got)
	}
}
