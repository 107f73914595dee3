//go:build integration

package endtoend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// profilesFile defines pools that differ in memory, size and what is imported, and one whose image is not there.
const profilesFile = `
memory: 100m
pool-size: 1
profiles:
  big: {memory: 300m, pool-size: 2, preload: [wave]}
  gone: {image: "example.invalid/gone:1"}
`

// showKind prints what a sandbox lets code see of its profile: whether it gets 200 MB, and what was imported for it.
const showKind = `import sys
print('wave' in sys.modules)
try:
    print(len(bytearray(200 << 20)))
except MemoryError:
    print('no memory')
`

func profilesConfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte(profilesFile), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Each call gets a sandbox of the profile that it names, and one whose image is missing fails only its own calls.
func TestProfiles(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--config", profilesConfig(t)).open()
	ctrdtest.Await(t, "both pools are full", func() error {
		now, err := e.Count()
		if err != nil {
			return err
		}
		frozen := 0
		for _, id := range now.Minus(base)[ctrdtest.Cgroups] {
			if is, err := e.Group(id).Frozen(); err == nil && is {
				frozen++
			}
		}
		if frozen != 3 {
			return fmt.Errorf("frozen are %d", frozen)
		}
		return nil
	})
	res := s.do(1, showKind, `,"profile":"big"`)
	if res.Status != actors.StatusSuccess || res.Stdout != fmt.Sprintln("True")+fmt.Sprintln(200<<20) || res.Receipt.Pool != "hit" {
		t.Errorf("big: %+v, %+v", res, res.Error)
	}
	res = s.do(2, showKind)
	if res.Status != actors.StatusOOM || !strings.Contains(res.Error.Message, "100 MiB") || res.Receipt.Pool != "hit" {
		t.Errorf("the default one: %+v, %+v", res, res.Error)
	}
	res = s.do(3, "1", `,"profile":"gone"`)
	if res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "example.invalid/gone:1") || !strings.Contains(res.Error.Message, "thawpool image pull") {
		t.Errorf("gone: %+v, %+v", res, res.Error)
	}
	res = s.do(4, "import sys\nprint('wave' in sys.modules)", `,"profile":"default"`)
	if res.Stdout != "False\n" {
		t.Errorf("the default one by name: %+v, %+v", res, res.Error)
	}
	res = s.do(5, "1", `,"profile":"none"`)
	if res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "profile must be one of default, big, gone") {
		t.Errorf("none: %+v, %+v", res, res.Error)
	}
	s.close()
	e.RequireNone(t, base)
}

// The default profile may be any, also one that cannot be had: the others' calls are answered.
func TestDefaultProfileWithoutItsImage(t *testing.T) {
	e, base := env(t)
	s := serve(t, e, "--config", profilesConfig(t), "--profile", "gone").open()
	if res := s.do(1, "print(1)", `,"profile":"big"`); res.Stdout != "1\n" {
		t.Errorf("big: %+v, %+v", res, res.Error)
	}
	if res := s.do(2, "print(1)"); res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "example.invalid/gone:1") {
		t.Errorf("gone: %+v, %+v", res, res.Error)
	}
	s.close()
	e.RequireNone(t, base)
}

// run takes the profile that it is told, and its own flags hold against it.
func TestRunProfile(t *testing.T) {
	e, base := env(t)
	file := profilesConfig(t)
	for name, tt := range map[string]struct {
		args   []string
		stdout string
		stderr string // contained
		status int
	}{
		"default": {nil, "False\n", "memory limit 100 MiB", 137},
		"big":     {[]string{"--profile", "big"}, "True\n209715200\n", "", 0},
		"flag":    {[]string{"--profile", "big", "--memory", "90m"}, "True\n", "memory limit 90 MiB", 137},
		"gone":    {[]string{"--profile", "gone"}, "", "example.invalid/gone:1", 125},
		"none":    {[]string{"--profile", "none"}, "", "must be one of big, default, gone", 125},
	} {
		stdout, stderr, status := shell(t, e, strings.Replace(showKind, "sys.modules)", "sys.modules, flush=True)", 1), "run",
			append([]string{"--config", file, "-"}, tt.args...)...)
		if stdout != tt.stdout || status != tt.status || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%s: status %d, stdout %q, stderr %q", name, status, stdout, stderr)
		}
	}
	stdout, _, _ := shell(t, e, "", "config", "--json", "--config", file)
	var all map[string]struct{ Value string }
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || all["profiles.big.memory"].Value != "300MiB" {
		t.Errorf("config: %v in %s", err, stdout)
	}
	e.RequireNone(t, base)
}
