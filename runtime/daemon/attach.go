package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// Attach uses a rootless containerd of this user that somebody else runs, and never starts or stops it. FIFOs go below
// the state directory, which that containerd must see at the same path. What dead owners left is removed by whoever
// calls for it, since no keeper does.
func Attach(ctx context.Context, address string, c Config) (*Daemon, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(address) {
		return nil, fmt.Errorf("containerd's address %q is not the absolute path of a socket", address)
	}
	l, err := openLayout(c.StateDir)
	if err != nil {
		return nil, err
	}
	proc, err := probe(ctx, address, keeperPatience)
	if err != nil {
		return nil, runtime.WithHint(fmt.Errorf("%w: containerd at %s: %w", runtime.ErrUnavailable, address, err),
			"start it, or leave --containerd-address away to use a private one")
	}
	sum := sha256.Sum256([]byte(address))
	l.dir = l.path("attached", hex.EncodeToString(sum[:4]))
	l.id = "attached-" + hex.EncodeToString(sum[:4])
	r, err := attachedPlace(proc.pid, l)
	if err == nil {
		err = os.MkdirAll(l.path("fifo"), 0o700)
	}
	if err != nil {
		proc.close()
		return nil, fmt.Errorf("use containerd at %s: %w", address, err)
	}
	same := func(path string) string { return path }
	return newDaemon(&Daemon{layout: l, record: r, proc: proc, inside: same, socket: address}), nil
}

// attachedPlace finds where sandboxes' groups can go under somebody else's containerd. On v1 that is what `thawpool
// setup` delegated to the user; on v2 it is the group that containerd's own unit was delegated.
func attachedPlace(pid int, l layout) (record, error) {
	v, err := host.CgroupVersion()
	if err != nil {
		return record{}, err
	}
	if v == host.V1 {
		base, err := host.Delegated(os.Geteuid())
		if err != nil {
			return record{}, err
		}
		p := path.Join(base, l.id)
		return record{Cgroup: v, HostPath: p, SpecPath: p}, nil
	}
	dir := path.Join("/proc", strconv.Itoa(pid))
	group, err := groupOf(path.Join(dir, "cgroup"))
	if err != nil {
		return record{}, err
	}
	root, err := namespaceRoot(path.Join(dir, "root", cgroup2Mount), group)
	if err != nil {
		return record{}, fmt.Errorf("look at its cgroup namespace: %w", err)
	}
	if root == "/" { // it sees the whole hierarchy, as we do
		p := path.Join(delegatedAbove(group), l.id)
		return record{Cgroup: v, HostPath: p, SpecPath: p}, nil
	}
	return record{Cgroup: v, HostPath: path.Join(root, l.id), SpecPath: path.Join("/", l.id)}, nil
}

// namespaceRoot is the group that a process in group sees as the root, by the identity of the directory that it has
// mounted.
func namespaceRoot(mounted, group string) (string, error) {
	theirs, err := os.Stat(mounted)
	if err != nil {
		return "", err
	}
	for g := path.Clean(group); ; g = path.Dir(g) {
		ours, err := os.Stat(path.Join(cgroup2Mount, g))
		if err != nil {
			return "", err
		}
		if os.SameFile(ours, theirs) {
			return g, nil
		}
		if g == "/" || g == "." {
			return "", fmt.Errorf("%w: what it has at %s is none of the groups above %s", runtime.ErrUnsupported, cgroup2Mount, group)
		}
	}
}

// delegatedAbove is the unit that a process in group belongs to: rootlesskit moves containerd to a group below its unit.
func delegatedAbove(group string) string {
	for g := group; g != "/" && g != "."; g = path.Dir(g) {
		if strings.HasSuffix(g, ".service") || strings.HasSuffix(g, ".scope") {
			return g
		}
	}
	return group
}
