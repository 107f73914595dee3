package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "rewrite golden files and generated documents")

// cleanEnv takes away what the tester's own environment would configure.
func cleanEnv(t *testing.T) {
	t.Helper()
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, legacyPrefix) {
			t.Setenv(name, "")
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
}

// loaded configures an app with args, as a command would.
func loaded(t *testing.T, args ...string) (*app, error) {
	t.Helper()
	a := newApp()
	cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error { return a.configure(cmd) }}
	cmd.Flags().StringVar(&a.configFile, configFlag, "", "")
	a.addFlags(cmd, groups...)
	cmd.SetArgs(append([]string{}, args...)) // nil would mean the test's own
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetErr(&bytes.Buffer{})
	return a, cmd.ExecuteContext(t.Context())
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A flag beats THAWPOOL_*, that beats MCP_BRIDGE_*, that the file, that the default.
func TestPrecedence(t *testing.T) {
	type sources struct{ flag, own, legacy, file string }
	for name, tt := range map[string]struct {
		set  sources
		want time.Duration
		from string
	}{
		"default": {sources{}, 30 * time.Second, "default"},
		"file":    {sources{file: "11s"}, 11 * time.Second, "file "},
		"legacy":  {sources{file: "11s", legacy: "12"}, 12 * time.Second, "variable MCP_BRIDGE_TIMEOUT"},
		"own":     {sources{file: "11s", legacy: "12", own: "13.5"}, 13500 * time.Millisecond, "variable THAWPOOL_TIMEOUT"},
		"flag":    {sources{file: "11s", legacy: "12", own: "13", flag: "14s"}, 14 * time.Second, "flag --timeout"},
		"gaps":    {sources{file: "11s", flag: "14s"}, 14 * time.Second, "flag --timeout"},
		// What a stronger source hides is not even looked at.
		"hidden": {sources{own: "nonsense", flag: "14s"}, 14 * time.Second, "flag --timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			cleanEnv(t)
			var args []string
			if tt.set.file != "" {
				args = append(args, "--config", writeFile(t, "c.yaml", "timeout: "+tt.set.file+"\n"))
			}
			t.Setenv("MCP_BRIDGE_TIMEOUT", tt.set.legacy)
			t.Setenv("THAWPOOL_TIMEOUT", tt.set.own)
			if tt.set.flag != "" {
				args = append(args, "--timeout", tt.set.flag)
			}
			a, err := loaded(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			if a.cfg.Timeout != tt.want || !strings.HasPrefix(a.sources["timeout"], tt.from) {
				t.Errorf("timeout %v from %s", a.cfg.Timeout, a.sources["timeout"])
			}
		})
	}
}

// The three kinds of file say the same, flat or nested.
func TestFileKinds(t *testing.T) {
	for name, text := range map[string]string{
		"flat.yaml":  "pool-size: 3\nmemory: 1GiB\npreload: [numpy, pandas.core]\nmax-timeout: 300\n",
		"nested.yml": "pool:\n  size: 3\nmemory: 1g\npreload: numpy,pandas.core\nmax: {timeout: 5m}\n",
		"c.toml":     "pool-size = 3\nmemory = 1073741824\npreload = ['numpy', 'pandas.core']\n[max]\ntimeout = '5m'\n",
		"c.json":     `{"pool": {"size": 3}, "memory": 1073741824, "preload": ["numpy", "pandas.core"], "max-timeout": "5m"}`,
		"UPPER.JSON": `{"pool-size": "3", "memory": "1024m", "preload": "numpy, pandas.core", "max-timeout": "300"}`,
	} {
		cleanEnv(t)
		a, err := loaded(t, "--config", writeFile(t, name, text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := a.cfg
		if c.Pool.Size != 3 || c.Limits.Memory != 1<<30 || strings.Join(c.Preload, " ") != "numpy pandas.core" || c.MaxTimeout != 5*time.Minute {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// The user's own file is found, and two of them are refused rather than one of them ignored.
func TestUsersFile(t *testing.T) {
	cleanEnv(t)
	dir := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "thawpool")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte("queue = 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := loaded(t); err != nil || a.cfg.Pool.Queue != 7 {
		t.Errorf("queue %d, %v", a.cfg.Pool.Queue, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("queue: 8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loaded(t); err == nil || !strings.Contains(err.Error(), "there are several, keep one") {
		t.Errorf("two files: %v", err)
	}
	t.Setenv(configEnv, filepath.Join(dir, "config.yaml"))
	if a, err := loaded(t); err != nil || a.cfg.Pool.Queue != 8 {
		t.Errorf("queue %d, %v", a.cfg.Pool.Queue, err)
	}
}

// Everything that is wrong is told at once, with its name and where it came from.
func TestAllProblemsAtOnce(t *testing.T) {
	cleanEnv(t)
	path := writeFile(t, "c.yaml", "pool-sise: 3\ntimeout: [1, 2]\nmemory: lots\npool: {max: 0}\nqueue: null\nfoo: {bar: 1}\n")
	t.Setenv("THAWPOOL_PIDS", "2")
	t.Setenv("MCP_BRIDGE_OUTPUT_MODE", "XML")
	_, err := loaded(t, "--config", path, "--log-level", "loud", "--preload", "os;rm")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		`"pool-sise" is no option; did you mean pool-size?`,
		`"foo-bar" is no option; thawpool config shows them all`,
		"timeout (file " + path + "): must be one value and is a list",
		"memory (file " + path + `): must be a size like 512m or 1GiB and is "lots"`,
		"pool-max (file " + path + "): must be at least 1 and is 0",
		"queue (file " + path + "): has no value",
		"pids (variable THAWPOOL_PIDS): must be from 8 to 32768 and is 2",
		`output-mode (variable MCP_BRIDGE_OUTPUT_MODE): must be one of compact, toon and is "xml"`,
		`log-level (flag --log-level): must be one of trace, debug, info, warn, error and is "loud"`,
		`preload (flag --preload): has "os;rm", which is no Python module's name`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q in\n%v", want, err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"syntax":  {"c.yaml", "a: [", "config file "},
		"json":    {"c.json", `{"queue": 1,}`, "config file "},
		"toml":    {"c.toml", "queue = ", "config file "},
		"unknown": {"c.ini", "queue=1", "must end in .yaml, .yml, .toml or .json"},
	} {
		cleanEnv(t)
		if _, err := loaded(t, "--config", writeFile(t, tt.file, tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := loaded(t, "--config", filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a missing file was ignored")
	}
}

func TestValues(t *testing.T) {
	for _, tt := range []struct{ flag, value, want string }{
		{"memory", "512m", "512MiB"}, {"memory", "1GiB", "1GiB"}, {"memory", "1.5g", "1536MiB"}, {"memory", "104857601", "104857601"},
		{"memory", "-1", "!"}, {"memory", "1 GiB of", "!"}, {"memory", "", "!"},
		{"timeout", "10", "10s"}, {"timeout", "0.5", "500ms"}, {"timeout", "1m30s", "1m30s"}, {"timeout", "-5s", "!"}, {"timeout", "NaN", "!"}, {"timeout", "1e99", "!"},
		{"pool-size", "auto", "auto"}, {"pool-size", "3", "3"}, {"pool-size", "3.5", "!"},
		{"pids", "64", "64"}, {"pids", "99999999999999999999", "!"},
		{"preload", "a, b,,c", "a,b,c"},
		{"allow", "git{hub,lab}.*, fs.read_[a,b]", "git{hub,lab}.*,fs.read_[a,b]"}, {"allow", "", ""}, {"deny", "a}b,c", "!"}, {"deny", "{", "!"},
		{"dry-run-mutations", "true", "true"}, {"dry-run-mutations", "maybe", "!"},
		{"discover", "cursor,claude", "cursor,claude"}, {"discover", "emacs", "!"},
		{"registry", "", ""}, {"registry", "ftp://x", "!"},
		{"log-level", "WARN", "warn"},
		{"daemon-idle", "1h", "1h"},
	} {
		cleanEnv(t)
		a, err := loaded(t, "--"+tt.flag+"="+tt.value)
		if tt.want == "!" {
			if err == nil {
				t.Errorf("--%s %q was accepted", tt.flag, tt.value)
			}
			continue
		}
		if err != nil {
			t.Errorf("--%s %q: %v", tt.flag, tt.value, err)
			continue
		}
		if got := a.flags.Lookup(tt.flag).Value.String(); got != tt.want {
			t.Errorf("--%s %q became %s", tt.flag, tt.value, got)
		}
	}
}

// Every variable that the reference bridge documents is taken or told, in every form that it documents.
func TestEveryVariableOfTheReferenceBridge(t *testing.T) {
	for name, values := range map[string]map[string]string{ // and what each value becomes; "" where nothing goes by it
		"TIMEOUT":              {"30": "30s", "30s": "30s", "60": "1m"},
		"MAX_TIMEOUT":          {"120": "2m", "120s": "2m"},
		"MEMORY":               {"512m": "512MiB", "1g": "1GiB"},
		"PIDS":                 {"128": "128"},
		"RUNTIME_IDLE_TIMEOUT": {"300": "5m", "300s": "5m"},
		"STATE_DIR":            {"/srv/bridge": "/srv/bridge", "~/MCPs": "HOME/MCPs"},
		"OUTPUT_MODE":          {"compact": "compact", "toon": "toon", "TOON": "toon"},
		"IMAGE":                {"python:3.14-slim": "python:3.14-slim"},
		"LOG_LEVEL": {"DEBUG": "debug", "INFO": "info", "WARN": "warn", "WARNING": "warn", "ERROR": "error",
			"CRITICAL": "error", "FATAL": "error", "NOTSET": "trace"},
		"RUNTIME":           {"podman": "", "docker": ""},
		"CPUS":              {"2.0": ""},
		"CONTAINER_USER":    {"1000:1000": ""},
		"ALLOW_SELF_SERVER": {"1": ""}, // read by the catalog
	} {
		for value, want := range values {
			cleanEnv(t)
			t.Setenv(legacyPrefix+name, value)
			a, err := loaded(t)
			if err != nil {
				t.Errorf("%s=%s: %v", name, value, err)
				continue
			}
			i := slices.IndexFunc(a.options, func(o option) bool { return o.legacy == name })
			if want = strings.Replace(want, "HOME", os.Getenv("HOME"), 1); want == "" {
				if i >= 0 || (len(a.warnings) == 0) != (name == "ALLOW_SELF_SERVER") {
					t.Errorf("%s=%s was not told: %q", name, value, a.warnings)
				}
			} else if i < 0 || a.options[i].value.String() != want {
				t.Errorf("%s=%s did not become %s", name, value, want)
			}
		}
	}
}

// A list flag may be repeated, and then replaces what the file has; a bare bool flag is true.
func TestRepeatedFlags(t *testing.T) {
	cleanEnv(t)
	file := writeFile(t, "c.yaml", "allow: [x]\ndeny: [y, z]\n")
	a, err := loaded(t, "--config", file, "--allow", "a", "--dry-run-mutations", "--allow", "b,c")
	if err != nil {
		t.Fatal(err)
	}
	p := a.cfg.Servers.Policy
	if strings.Join(p.Allow, " ") != "a b c" || strings.Join(p.Deny, " ") != "y z" || !p.DryRunMutations {
		t.Errorf("%+v", p)
	}
}

func TestPoolSizeAuto(t *testing.T) {
	cleanEnv(t)
	a, err := loaded(t, "--pool-size", "auto", "--pool-max", "5")
	if err != nil {
		t.Fatal(err)
	}
	if p := a.cfg.Pool; !p.Auto || p.SizeMin != 2 || p.SizeMax != 5 || p.Size != 5 {
		t.Errorf("%+v", p)
	}
	if err := a.cfg.Pool.Validate(); err != nil {
		t.Error(err)
	}
}

// Unknown variables and those of the reference bridge that mean nothing here are told, not obeyed.
func TestWarnings(t *testing.T) {
	cleanEnv(t)
	t.Setenv("THAWPOOL_POOLSIZE", "3")
	t.Setenv("MCP_BRIDGE_RUNTIME", "podman")
	for _, own := range []string{"THAWPOOL_UPSTREAM", "THAWPOOL_DEPTH", "THAWPOOL_CONFIG"} { // what a thawpool sets that starts this one
		t.Setenv(own, writeFile(t, "c.yaml", ""))
	}
	a, err := loaded(t)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(a.warnings, "\n")
	if len(a.warnings) != 2 || !strings.Contains(got, "THAWPOOL_POOLSIZE is no option") || !strings.Contains(got, "MCP_BRIDGE_RUNTIME has no effect") {
		t.Error(got)
	}
}

// What config prints is a file that gives the same configuration.
func TestConfigPrintsAFile(t *testing.T) {
	cleanEnv(t)
	a, err := loaded(t, "--preload", "numpy,pandas", "--pool-size", "auto", "--containerd-address", "/run/x: y.sock")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := a.printConfig(&out); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := yaml.Unmarshal(out.Bytes(), &m); err != nil {
		t.Fatalf("%v in\n%s", err, out.Bytes())
	}
	b, err := loaded(t, "--config", writeFile(t, "c.yaml", out.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range b.options {
		if was := a.flags.Lookup(o.name).Value.String(); was != o.value.String() {
			t.Errorf("%s was %q and came back as %q", o.name, was, o.value)
		}
	}
}

// golden compares text with a file, or with -update rewrites it.
func golden(t *testing.T, path string, text []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil { //nolint:gosec // a document of the repository
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, text) {
		t.Errorf("%s is out of date; run  go test ./cmd/thawpool -update", path)
	}
}

// docs/configuration.md is made from the flags.
func TestConfigurationDocs(t *testing.T) {
	cleanEnv(t)
	var out bytes.Buffer
	if err := printConfigDocs(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/configuration.md", out.Bytes())
}

// The help of the commands whose flags are ours.
func TestHelp(t *testing.T) {
	cleanEnv(t)
	for _, name := range []string{"", "serve", "run", "config"} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		args := []string{"--help"}
		file := "root"
		if name != "" {
			args, file = []string{name, "--help"}, name
		}
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", "help-"+file+".golden"), out.Bytes())
	}
}
