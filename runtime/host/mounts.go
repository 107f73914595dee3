package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/sys/mountinfo"

	"github.com/thawpool/thawpool/runtime"
)

// Version is the cgroup version that carries the resource controllers.
type Version int

// The two cgroup versions. A hybrid host, with its controllers on v1 and an almost empty v2 mount beside them, is V1.
const (
	V1 Version = 1
	V2 Version = 2
)

func (v Version) String() string { return fmt.Sprintf("v%d", int(v)) }

// NeededV1 are the v1 hierarchies that a delegated tree must exist in: those that runc joins and that this project
// limits, counts or freezes with. "systemd" is the named hierarchy without a controller, needed where it is mounted.
var NeededV1 = []string{"memory", "pids", "cpu", "cpuacct", "cpuset", "freezer", "devices", "blkio", "systemd"}

// requiredV1 must be mounted for a sandbox to be limited, counted and frozen; the others are only used where present.
var requiredV1 = []string{"memory", "pids", "cpuacct", "freezer"}

// NeededV2 are the controllers that a delegated v2 subtree must offer. (The v2 freezer belongs to the core.)
var NeededV2 = []string{"memory", "pids", "cpu"}

// mounts says where the cgroup hierarchies of one machine are. Paths include the root prefix of tests.
type mounts struct {
	v1   map[string]string // controller, or "systemd", to mount point
	dirs []string          // every v1 mount point once, sorted: co-mounted controllers share one
	v2   string            // the cgroup2 mount, or ""
}

// readMounts reads the mount table of this process below root ("" is the real one).
func readMounts(root string) (mounts, error) {
	f, err := os.Open(filepath.Join(root, "/proc/self/mountinfo"))
	if err != nil {
		return mounts{}, fmt.Errorf("read cgroup mounts: %w", err)
	}
	defer f.Close()
	infos, err := mountinfo.GetMountsFromReader(f, mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return mounts{}, fmt.Errorf("read cgroup mounts: %w", err)
	}
	// A container or chroot may see one hierarchy twice; the copy below /sys/fs/cgroup is the one everybody means.
	slices.SortStableFunc(infos, func(a, b *mountinfo.Info) int { return mountRank(a) - mountRank(b) })
	m := mounts{v1: map[string]string{}}
	for _, info := range infos {
		m.add(info, root)
	}
	for _, dir := range m.v1 {
		if !slices.Contains(m.dirs, dir) {
			m.dirs = append(m.dirs, dir)
		}
	}
	slices.Sort(m.dirs)
	return m, nil
}

func mountRank(info *mountinfo.Info) int {
	if strings.HasPrefix(info.Mountpoint, "/sys/fs/cgroup") {
		return 0
	}
	return 1
}

func (m *mounts) add(info *mountinfo.Info, root string) {
	dir := filepath.Join(root, info.Mountpoint)
	if info.FSType == "cgroup2" {
		if m.v2 == "" {
			m.v2 = dir
		}
		return
	}
	for option := range strings.SplitSeq(info.VFSOptions, ",") {
		name := strings.TrimPrefix(option, "name=")
		if option == "rw" || option == "ro" || m.v1[name] != "" {
			continue
		}
		m.v1[name] = dir
	}
}

// version decides which version carries the controllers.
func (m mounts) version() (Version, error) {
	if m.v1["memory"] == "" && m.v1["pids"] == "" && m.v2 != "" {
		return V2, nil
	}
	var missing []string
	for _, name := range requiredV1 {
		if m.v1[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return V1, nil
	}
	err := fmt.Errorf("%w: no cgroup controller for %s is mounted", runtime.ErrUnsupported, strings.Join(missing, ", "))
	return 0, runtime.WithHint(err, "mount cgroup v2: mount -t cgroup2 cgroup2 /sys/fs/cgroup")
}

// hostMounts is the mount table of this process; cgroup mounts do not change while a host is up.
var hostMounts = sync.OnceValues(func() (mounts, error) { return readMounts("") })

// CgroupVersion tells which cgroup version carries this machine's controllers. A machine that has neither is an
// ErrUnsupported.
func CgroupVersion() (Version, error) {
	m, err := hostMounts()
	if err != nil {
		return 0, err
	}
	return m.version()
}
