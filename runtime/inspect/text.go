package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// telling are the options of a mount that confine; the others differ by kernel and user.
var telling = []string{"ro", "rw", "nosuid", "nodev", "noexec"}

// limited are the rlimits that a sandbox has of its own; the others are its daemon's.
var limited = []string{"CORE", "MEMLOCK", "MSGQUEUE", "NOFILE"}

// Print writes a report as text that is the same on every machine where sandboxes are confined as they should be: what
// differs by kernel and user is told as a judgement.
func (r Report) Print(w io.Writer, wanted runtime.Paths) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-14s%s\n", name, fmt.Sprintf(format, args...))
	}
	for _, owner := range []struct {
		owner Owner
		title string
	}{{OfSandbox, "of its own"}, {OfDaemon, "shared with this user's sandboxes"}, {OfHost, "of the host"}} {
		line("namespaces", "%s: %s", owner.title, words(r.names(owner.owner)))
	}
	line("ids", "uid %s, gid %s, groups %s; on the host %s", same(r.UIDs), same(r.GIDs), words(r.Groups), r.hostID())
	line("capabilities", "%s", r.capabilities())
	line("privileges", "no_new_privs %v, seccomp mode %d with %d filter", r.NoNewPrivs, r.Seccomp, r.Filters)
	for _, name := range limited {
		line("rlimit", "%s %s, at most %s", name, r.Rlimits[name].Soft, r.Rlimits[name].Hard)
	}
	line("control group", "memory %s, swap %s, processes %s, cpu weight %d, oom score %d",
		size(r.Cgroup.Memory), r.swap(), count(r.Cgroup.PIDs), r.Cgroup.CPUWeight, r.OOMScoreAdj)
	for _, m := range append([]Mount{r.Root}, r.Mounts...) {
		line("mount", "%s %s", m.Path, strings.Join(m.telling(), ","))
	}
	line("devices", "%s", words(r.Devices))
	bare := func(path string) bool { return slices.Contains(r.Bare, path) }
	line("read-only", "%s", words(slices.DeleteFunc(slices.Clone(wanted.ReadOnly), bare)))
	line("masked", "%s", words(slices.DeleteFunc(slices.Clone(wanted.Masked), bare)))
	line("bare", "%s", words(r.Bare))
	line("environment", "%s", words(r.Environment))
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) names(owner Owner) (names []string) {
	for _, ns := range r.Namespaces {
		if ns.Owner == owner {
			names = append(names, ns.Name)
		}
	}
	return names
}

// hostID judges what the sandbox's uid is to the host: no account, and not the user's own.
func (r Report) hostID() string {
	if _, err := host.LookupUser(r.HostUID); err == nil {
		return fmt.Sprintf("the account with uid %d", r.HostUID)
	}
	for _, m := range r.UIDMap {
		if n := int64(r.HostUID); m.Count > 1 && n >= m.Outside && n < m.Outside+m.Count {
			return "a subordinate id without an account"
		}
	}
	return fmt.Sprintf("uid %d", r.HostUID)
}

func (r Report) capabilities() string {
	var some []string
	for _, set := range slices.Sorted(maps.Keys(r.Capabilities)) {
		if strings.Trim(r.Capabilities[set], "0") != "" {
			some = append(some, set+" "+r.Capabilities[set])
		}
	}
	if len(some) == 0 && len(r.Capabilities) > 0 {
		return "none in any set"
	}
	return strings.Join(some, ", ")
}

func (r Report) swap() string {
	if r.Cgroup.Swap == 0 || r.Cgroup.Swap == host.Unlimited {
		return "none where the kernel counts it"
	}
	return size(r.Cgroup.Swap)
}

// telling are the mount's options that confine, and a file system's bounds.
func (m Mount) telling() (options []string) {
	for _, o := range telling {
		if slices.Contains(m.Options, o) {
			options = append(options, o)
		}
	}
	for _, o := range m.Options {
		if strings.HasPrefix(o, "size=") || strings.HasPrefix(o, "nr_inodes=") {
			options = append(options, o)
		}
	}
	return options
}

func words[T any](list []T) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(list), "[]")
}

// same writes ids that are all equal as one.
func same(ids []int) string {
	if ids := slices.Compact(slices.Clone(ids)); len(ids) == 1 {
		return fmt.Sprint(ids[0])
	}
	return words(ids)
}

func size(bytes int64) string {
	if bytes == host.Unlimited {
		return "unlimited"
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

func count(n int64) string {
	if n == host.Unlimited {
		return "unlimited"
	}
	return fmt.Sprint(n)
}
