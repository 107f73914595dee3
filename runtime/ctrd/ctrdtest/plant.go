package ctrdtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/host"
)

// FindPrefix is the first process of the keeper's tree whose program's name begins so.
func (e *Env) FindPrefix(t testing.TB, prefix string) Process {
	t.Helper()
	tree, err := e.Tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tree {
		if len(p.Args) > 0 && strings.HasPrefix(filepath.Base(p.Args[0]), prefix) {
			return p
		}
	}
	t.Fatalf("no process %s… among %v", prefix, tree)
	return Process{}
}

// PlantOrphans leaves a directory for FIFOs and a group that belong to no sandbox, and gives the number of kinds of leaks
// that they are. On cgroup v1 a frozen process is in the group; on v2 nobody may move one in from outside.
func (e *Env) PlantOrphans(t testing.TB, name string) (kinds int) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(e.StateDir, "fifo", name), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := e.record()
	if err != nil {
		t.Fatal(err)
	}
	root := "/sys/fs/cgroup"
	if r.Cgroup == host.V1 {
		root += "/freezer"
	}
	dir := filepath.Join(root, r.HostPath, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if r.Cgroup == host.V2 {
		return 2
	}
	cmd := exec.Command("sleep", "3600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // the sweep kills it
	pid := []byte(strconv.Itoa(cmd.Process.Pid))
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0); err != nil {
		t.Fatal(err)
	}
	if err := e.Group(name).SetFrozen(true); err != nil {
		t.Fatal(err)
	}
	return 3
}

// SweepEverything is a sweep to which no owner is alive.
func (e *Env) SweepEverything() ctrd.SweepConfig {
	g, _ := e.group()
	return ctrd.SweepConfig{
		Address: filepath.Join(e.StateDir, "run", "containerd.sock"),
		FIFODir: filepath.Join(e.StateDir, "fifo"),
		Group:   g,
		Alive:   func(host.Owner) bool { return false },
	}
}
