//go:build integration

package endtoend

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/host"
)

// failshimName is the shim whose operations can be told to fail; see its own documentation.
const failshimName = "thawpool-failshim"

// buildFailshim builds it as the Makefile builds the shim.
func buildFailshim(bin string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "seccomp netgo osusergo",
		"-ldflags", "-s -w -linkmode external -extldflags -static", "-o", filepath.Join(bin, failshimName), "./failshim")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// The ways in which an operation goes wrong.
var wrongs = []string{"fails", "hangs", "mute"}

// operation is one that containerd asks a shim for.
type operation struct {
	name    string
	with    string   // what has to go wrong too for it to be asked for
	foreign bool     // only by --runtime of a shim that is not taken for ours
	last    bool     // only when the server ends, or when a shim happens to be empty
	fast    []string // the ways that are part of make test
}

var operations = []operation{
	{name: "CreateSandbox"},
	{name: "StartSandbox"},
	{name: "WaitSandbox"},
	{name: "StopSandbox", last: true},
	{name: "ShutdownSandbox", last: true},
	{name: "Create", fast: []string{"mute"}},
	{name: "Connect"},
	{name: "Start", fast: []string{"fails"}},
	{name: "State"},
	{name: "Wait"},
	{name: "Delete"},
	{name: "Kill", with: "Delete fails"},
	{name: "Shutdown"},
	{name: "Pause", foreign: true, fast: []string{"fails"}},
	{name: "Resume", foreign: true},
}

// Single operations of a shim fail, hang, or are done without an answer.
func TestFaultOperations(t *testing.T) {
	dir, tell := programs(t)
	shim := filepath.Join(dir, "containerd-shim-thawpool-v1")
	if err := errors.Join(os.Remove(shim), copyFile(filepath.Join(ctrdtest.BinDir(), failshimName), shim)); err != nil {
		t.Fatal(err)
	}
	e, base := env(t)
	for _, op := range operations {
		for _, wrong := range wrongs {
			if os.Getenv(allFaultsEnv) != "all" && !slices.Contains(op.fast, wrong) {
				continue
			}
			t.Run(op.name+" "+wrong, func(t *testing.T) {
				args := []string{"--bin-dir", dir, "--pool-size", "1", "--pool-max", "4", "--pool-empty", "cold", "--shim-tasks", "2"}
				if op.foreign {
					args = append(args, "--runtime", shim)
				}
				sc := newScene(t, e, args...)
				sc.s.open()
				sc.warm(1)
				sc.goWrong(tell, op, wrong)
				r := report{fault: op.name + " " + wrong, stage: procServing, began: time.Now(), base: base, gauge: sc.gauge}
				if op.last {
					r.stage = procStopping
				}
				sc.settle(r)
			})
		}
	}
}

// goWrong makes something go wrong for a while, under more calls than one shim has room for, or at the server's end.
func (sc *scene) goWrong(tell string, op operation, wrong string) {
	t := sc.t
	t.Helper()
	what := op.name + " " + wrong
	if err := os.WriteFile(tell, []byte(what+"\n"+op.with), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		sc.call("calls at once", "import time\ntime.sleep(1)")
	}
	if op.last {
		if gone, err := sc.answers(answered); gone || err != nil {
			t.Fatalf("gone %v, %v", gone, err)
		}
		_ = sc.s.in.Close()
	}
	ctrdtest.Await(t, what+" is met", func() error {
		met, err := os.ReadFile(tell + ".met")
		if err == nil && !strings.HasPrefix(string(met), what) {
			err = errors.New("only " + string(met))
		}
		return err
	})
	time.Sleep(stopped) // while it lasts
	if err := errors.Join(os.Remove(tell), os.Remove(tell+".met")); err != nil {
		t.Fatal(err)
	}
}

// Sandboxes are frozen and thawed by a file of the kernel's, which cannot be written for a while.
func TestFaultFreezer(t *testing.T) {
	e, base := env(t)
	sc := newScene(t, e, "--pool-size", "1", "--pool-max", "4", "--pool-empty", "cold")
	sc.s.open()
	sc.warm(1)
	writable := lockFreezers(t, e)
	for range 6 {
		sc.call("calls at once", "import time\ntime.sleep(1)")
	}
	sc.soon("a thaw and a freeze fail", func() bool {
		log := sc.s.log.String()
		return strings.Contains(log, "thaw sandbox") && strings.Contains(log, ": freeze: ")
	})
	writable()
	sc.settle(report{fault: "freezer cannot be written", stage: procServing, began: time.Now(), base: base, gauge: sc.gauge})
}

// lockFreezers keeps the freezers of all sandboxes from being written, new ones included, until its result is called.
func lockFreezers(t *testing.T, e *ctrdtest.Env) (writable func()) {
	t.Helper()
	all := func(mode os.FileMode) {
		now, err := e.Count()
		if err != nil {
			return // the next look finds them
		}
		for _, id := range now[ctrdtest.Cgroups] {
			_ = os.Chmod(freezerFile(e.Group(id)), mode) // one that has gone meanwhile is as good
		}
	}
	all(0o400)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			all(0o400)
			time.Sleep(time.Millisecond) // between two looks
		}
	})
	writable = sync.OnceFunc(func() { cancel(); work.Wait(); all(0o600) })
	t.Cleanup(writable)
	return writable
}

// freezerFile is what a group is frozen and thawed by.
func freezerFile(g host.Group) string {
	if g.Version() == host.V2 {
		return filepath.Join("/sys/fs/cgroup", g.Path(), "cgroup.freeze")
	}
	return filepath.Join("/sys/fs/cgroup/freezer", g.Path(), "freezer.state")
}
