//go:build integration

package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/host/prepare"
)

// dropEnv makes the test's executable a program that drops to the account and tells what it finds then.
const dropEnv = "THAWPOOL_TEST_DROP"

// dropped is what the process sees after the drop.
type dropped struct {
	UID, GID int
	Groups   []int
	Exe, Cwd string
	Args     []string
	Env      []string
	Stdin    string
	Files    map[string]string
	Problems []string // of the definitions
}

// TestDropped is that program; it is no test of its own.
func TestDropped(t *testing.T) {
	if os.Getenv(dropEnv) == "" {
		return
	}
	operands := os.Args[slices.Index(os.Args, "--")+1:]
	r := reads{operands: operands, options: map[string][]string{"servers-config": {"defs"}}}
	if err := dropToAccount(os.Args[1:], r); err != nil {
		t.Fatal(err)
	}
	d := dropped{UID: os.Getuid(), GID: os.Getgid(), Args: os.Args, Env: os.Environ(), Files: map[string]string{}}
	d.Groups, _ = os.Getgroups()
	d.Exe, _ = os.Executable()
	d.Cwd, _ = os.Getwd()
	stdin, err := io.ReadAll(os.Stdin)
	for _, name := range operands {
		data, rerr := os.ReadFile(name)
		err = errors.Join(err, rerr)
		d.Files[string(data)] = name
	}
	d.Stdin = string(stdin)
	for _, p := range config.Load(config.Sources{Files: strings.Split(os.Getenv("THAWPOOL_SERVERS_CONFIG"), ",")}).Problems {
		d.Problems = append(d.Problems, p.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(os.Stderr).Encode(d); err != nil {
		t.Fatal(err)
	}
}

// TestRootDropsToTheServiceAccount starts as root below a closed directory, with files that only root can read. As an
// ordinary user the same program goes on as it is.
func TestRootDropsToTheServiceAccount(t *testing.T) {
	dir := t.TempDir()
	secret, definitions := filepath.Join(dir, "secret.py"), filepath.Join(dir, "defs", "d.json")
	if err := errors.Join(os.Chmod(dir, 0o700), os.WriteFile(secret, []byte("only root"), 0o600), os.Mkdir(filepath.Dir(definitions), 0o700),
		os.WriteFile(definitions, []byte(`{"mcpServers": {"a": {}}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestDropped$", "--", "secret.py", "/etc/hostname")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), dropEnv+"=1", "SECRET=1")
	cmd.Stdin = strings.NewReader("what comes on stdin")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n") // setup's lines may come first
	var d dropped
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &d); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if d.Files["only root"] == "" || len(d.Files) != 2 || d.Stdin != "what comes on stdin" {
		t.Errorf("it read %q and on stdin %q", d.Files, d.Stdin)
	}
	if os.Geteuid() != 0 {
		if d.UID != os.Getuid() || d.Exe != exe || d.Cwd != dir {
			t.Errorf("an ordinary user's process changed: %+v", d)
		}
		return
	}
	t.Cleanup(func() { removeCopy(t, exe, d.Exe) })
	if len(d.Problems) != 1 || !strings.HasPrefix(d.Problems[0], definitions+`:1:17: server "a"`) {
		t.Errorf("of the definitions it says %q", d.Problems)
	}
	checkDropped(t, d)
}

func checkDropped(t *testing.T, d dropped) {
	t.Helper()
	a, err := findAccount()
	if err != nil {
		t.Fatal(err)
	}
	if d.UID != a.uid || d.GID != a.gid || !slices.Equal(d.Groups, []int{a.gid}) {
		t.Errorf("runs as %d:%d with groups %v", d.UID, d.GID, d.Groups)
	}
	if d.Cwd != a.home || !host.Reachable(d.Exe, a.uid) {
		t.Errorf("works in %s from %s", d.Cwd, d.Exe)
	}
	for _, entry := range d.Env {
		if strings.HasPrefix(entry, "SECRET=") || entry == "HOME=/root" {
			t.Errorf("root's environment came over: %s", entry)
		}
	}
	if !slices.Contains(d.Env, "HOME="+a.home) || !slices.Contains(d.Env, "USER="+a.name) {
		t.Errorf("environment %q", d.Env)
	}
	if _, err := host.Delegated(a.uid); err != nil {
		t.Error(err)
	}
}

// removeCopy removes what the drop installed of the test's own executable.
func removeCopy(t *testing.T, exe, copied string) {
	t.Helper()
	dir := filepath.Dir(copied)
	if copied == exe || filepath.Dir(dir) != prepare.InstallDir {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	_ = os.Remove(prepare.InstallDir) // when nothing else is in it
}
