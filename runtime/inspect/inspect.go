// Package inspect reads from the kernel how a running sandbox is really confined: its namespaces, ids, capabilities,
// filter, limits, mounts and environment. It looks from outside, as the user who owns the sandbox, and believes nothing
// that a configuration says.
package inspect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// Report is what the kernel tells of a sandbox's first process.
type Report struct {
	Namespaces   []Namespace       `json:"namespaces"`
	UIDMap       []IDRange         `json:"uidMap"` // of its user namespace
	GIDMap       []IDRange         `json:"gidMap"`
	UIDs         []int             `json:"uids"` // real, effective, saved, file system; as it sees them
	GIDs         []int             `json:"gids"`
	Groups       []int             `json:"groups"`
	HostUID      int               `json:"hostUid"` // what its uid is to the host
	Capabilities map[string]string `json:"capabilities"`
	Seccomp      int               `json:"seccomp"` // mode: 2 is a filter
	Filters      int               `json:"seccompFilters"`
	NoNewPrivs   bool              `json:"noNewPrivs"`
	OOMScoreAdj  int               `json:"oomScoreAdj"`
	Rlimits      map[string]Rlimit `json:"rlimits"`
	Cgroup       Cgroup            `json:"cgroup"`
	Root         Mount             `json:"root"`
	Mounts       []Mount           `json:"mounts"`   // the root, masks, read-only paths and devices left out
	Devices      []string          `json:"devices"`  // nodes of the host's /dev that are shown
	ReadOnly     []string          `json:"readOnly"` // paths of /proc
	Masked       []string          `json:"masked"`   // paths that show nothing
	Bare         []string          `json:"bare"`     // paths that should be one of the two, are not, and exist
	Environment  []string          `json:"environment"`
}

// Namespace is one of a process's namespaces. Owner tells who else is in it.
type Namespace struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Owner Owner  `json:"owner"`
}

// Owner says whose a namespace is.
type Owner string

// Whose a namespace can be.
const (
	OfSandbox Owner = "sandbox" // its own
	OfDaemon  Owner = "user"    // shared with the user's containerd and all its sandboxes
	OfHost    Owner = "host"
)

// IDRange maps ids inside a user namespace to those of the host.
type IDRange struct {
	Inside  int64 `json:"inside"`
	Outside int64 `json:"outside"`
	Count   int64 `json:"count"`
}

// Rlimit is a soft and a hard limit, or "unlimited".
type Rlimit struct {
	Soft string `json:"soft"`
	Hard string `json:"hard"`
}

// Cgroup has the limits of a control group; host.Unlimited is what the kernel does not limit.
type Cgroup struct {
	Path      string `json:"path"`
	Memory    int64  `json:"memory"`
	Swap      int64  `json:"swap"` // beyond memory
	PIDs      int64  `json:"pids"`
	CPUWeight int    `json:"cpuWeight"`
}

// Subject says which process is looked at and what it is compared with.
type Subject struct {
	Group  host.Group
	Daemon int           // a process of the containerd that the sandbox belongs to
	Paths  runtime.Paths // what should be read-only, and masked
}

// Sandbox reads how the first process of the sandbox in a control group is confined.
func Sandbox(s Subject) (Report, error) {
	pid, err := first(s.Group)
	if err != nil {
		return Report{}, fmt.Errorf("look into sandbox: %w", err)
	}
	var r Report
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	steps := []func(*Report, string) error{readStatus, readMaps, readRlimits, readEnvironment, readMounts}
	for _, step := range steps {
		err = errors.Join(err, step(&r, dir))
	}
	err = errors.Join(err, r.readNamespaces(dir, s.Daemon), r.readCgroup(s.Group))
	if err != nil {
		return r, fmt.Errorf("look into sandbox: %w", err)
	}
	r.findBare(s.Paths)
	return r, nil
}

// first is the process of a group whose parent is not in it.
func first(g host.Group) (int, error) {
	pids, err := g.Procs()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		s, err := statusOf(filepath.Join("/proc", strconv.Itoa(pid)))
		if err != nil {
			continue // has ended
		}
		if parent, err := strconv.Atoi(s["PPid"]); err == nil && !slices.Contains(pids, parent) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no first process among %v in %s", pids, g.Path())
}

func (r *Report) readNamespaces(dir string, daemon int) error {
	entries, err := os.ReadDir(filepath.Join(dir, "ns"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_for_children") {
			continue
		}
		id, err := os.Readlink(filepath.Join(dir, "ns", e.Name()))
		if err != nil {
			return err
		}
		owner := OfSandbox
		if theirs, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(daemon), "ns", e.Name())); err != nil {
			return err
		} else if theirs == id {
			owner = OfDaemon
		}
		if ours, err := os.Readlink(filepath.Join("/proc/self/ns", e.Name())); err != nil {
			return err
		} else if ours == id {
			owner = OfHost
		}
		r.Namespaces = append(r.Namespaces, Namespace{Name: e.Name(), ID: id, Owner: owner})
	}
	return nil
}

func (r *Report) readCgroup(g host.Group) (err error) {
	r.Cgroup.Path = g.Path()
	if r.Cgroup.Memory, err = g.MemoryLimit(); err != nil {
		return err
	}
	if r.Cgroup.Swap, err = g.SwapLimit(); err != nil {
		return err
	}
	if r.Cgroup.PIDs, err = g.PIDsLimit(); err != nil {
		return err
	}
	r.Cgroup.CPUWeight, err = g.CPUWeight()
	return err
}

// findBare lists what exists and is not as it should be.
func (r *Report) findBare(wanted runtime.Paths) {
	for _, list := range []struct{ wanted, found []string }{{wanted.ReadOnly, r.ReadOnly}, {wanted.Masked, r.Masked}} {
		for _, path := range list.wanted {
			if _, err := os.Lstat(path); err == nil && !slices.Contains(list.found, path) {
				r.Bare = append(r.Bare, path)
			}
		}
	}
}
