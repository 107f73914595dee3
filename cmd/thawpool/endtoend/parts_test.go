//go:build integration

package endtoend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// The parts that faults hit.
const (
	partServe       = "thawpool serve"
	partKeeper      = "keeper"
	partRootlesskit = "rootlesskit"
	partChild       = "rootlesskit's child"
	partContainerd  = "containerd"
	partShim        = "shim"
	partRunner      = "runner"
	partUpstream    = "upstream server"
	partGuard       = "upstreams' guard"
)

var parts = []string{partServe, partKeeper, partRootlesskit, partChild, partContainerd, partShim, partRunner, partUpstream, partGuard}

// find gives the processes of a part that run now. Of runners it is the first process of every sandbox that a call has,
// and of one that is frozen.
func (sc *scene) find(part string) ([]int, error) {
	tree, err := sc.e.Tree()
	if err != nil {
		return nil, err
	}
	all, err := ctrdtest.Table()
	if err != nil {
		return nil, err
	}
	pick := func(list []ctrdtest.Process, is func(ctrdtest.Process) bool) (pids []int) {
		for _, p := range list {
			if p.State != 'Z' && is(p) {
				pids = append(pids, p.PID)
			}
		}
		return pids
	}
	switch part {
	case partServe:
		return []int{sc.s.cmd.Process.Pid}, nil
	case partKeeper:
		owner, ok := sc.e.Keeper()
		if !ok {
			return nil, nil
		}
		return []int{owner.PID}, nil
	case partRootlesskit:
		return pick(tree, func(p ctrdtest.Process) bool { return p.Is("rootlesskit") }), nil
	case partChild:
		return pick(tree, func(p ctrdtest.Process) bool { return p.Is("exe") }), nil
	case partContainerd:
		return pick(tree, func(p ctrdtest.Process) bool { return p.Is("containerd") }), nil
	case partShim:
		return pick(tree, func(p ctrdtest.Process) bool {
			return slices.ContainsFunc(p.Args, func(a string) bool { return strings.HasPrefix(a, "shim-") })
		}), nil
	case partUpstream, partGuard:
		self, err := os.Executable()
		name := filepath.Base(self)
		if part == partGuard {
			name = "sh"
		}
		return pick(all, func(p ctrdtest.Process) bool { return p.Parent == sc.s.cmd.Process.Pid && p.Is(name) }), err
	case partRunner:
		return sc.runners()
	}
	return nil, fmt.Errorf("no part %s", part)
}

// runners are the first processes of sandboxes.
func (sc *scene) runners() (pids []int, err error) {
	now, err := sc.e.Count()
	if err != nil {
		return nil, err
	}
	frozen, err := sc.frozen()
	if err != nil {
		return nil, err
	}
	for _, id := range now[ctrdtest.Cgroups] {
		if i := slices.Index(frozen, id); i > 0 || id == sc.boxes[stageDestroyed] {
			continue
		}
		in, err := sc.e.Group(id).Procs()
		if err != nil {
			return nil, err
		}
		if len(in) > 0 {
			pids = append(pids, in[0])
		}
	}
	return pids, nil
}

// await waits for a part to be there.
func (sc *scene) await(part string) (pids []int) {
	sc.t.Helper()
	deadline := time.Now().Add(ctrdtest.Patience)
	for {
		pids, err := sc.find(part)
		if err == nil && len(pids) > 0 {
			return pids
		}
		if time.Now().After(deadline) {
			sc.t.Fatalf("no %s: %v", part, err)
		}
		time.Sleep(time.Millisecond) // between two looks
	}
}

// signalAll sends a signal; one that has gone meanwhile is as good.
func signalAll(pids []int, sig syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal %d to %d: %w", sig, pid, err)
		}
	}
	return nil
}

// goOn lets those that are still stopped go on.
func goOn(pids []int) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err == nil && strings.Contains(string(stat), ") T ") {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}
