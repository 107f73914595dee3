package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/thawpool/thawpool/runtime"
)

func mountsOf(t *testing.T, mountinfo string) (mounts, string) {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "proc/self")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "mountinfo"), []byte(mountinfo), 0o644)); err != nil {
		t.Fatal(err)
	}
	m, err := readMounts(root)
	if err != nil {
		t.Fatal(err)
	}
	return m, root
}

func TestVersionOfMountTables(t *testing.T) {
	unifiedOnly := "31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	memoryOnly := "33 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	systemdOnly := "32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
	for _, tt := range []struct {
		name, table string
		want        Version
		ok          bool
	}{
		{"v1 and hybrid", v1Mounts, V1, true},
		{"v2", v2Mounts, V2, true},
		{"v2 beside systemd's named hierarchy", v2Mounts + systemdOnly, V2, true},
		{"half a v1 with an empty v2", unifiedOnly + memoryOnly, 0, false},
		{"nothing", "", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := mountsOf(t, tt.table)
			v, err := m.version()
			if v != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %v, %v", v, err)
			}
			if err != nil && !errors.Is(err, runtime.ErrUnsupported) {
				t.Errorf("kind of %v", err)
			}
		})
	}
}

func TestCoMountedControllersShareADirectory(t *testing.T) {
	m, root := mountsOf(t, v1Mounts)
	if m.v1["cpu"] != filepath.Join(root, "/sys/fs/cgroup/cpu,cpuacct") || m.v1["cpu"] != m.v1["cpuacct"] {
		t.Errorf("cpu in %s, cpuacct in %s", m.v1["cpu"], m.v1["cpuacct"])
	}
	if len(m.dirs) != 8 || !slices.IsSorted(m.dirs) {
		t.Errorf("mount points %q", m.dirs)
	}
	if m.v2 != filepath.Join(root, "/sys/fs/cgroup/unified") {
		t.Errorf("v2 in %s", m.v2)
	}
}

func TestMountBelowSysIsPreferred(t *testing.T) {
	table := "10 1 0:29 / /var/lib/lxc/x/cgroup/memory rw - cgroup cgroup rw,memory\n" + v1Mounts
	m, root := mountsOf(t, table)
	if m.v1["memory"] != filepath.Join(root, "/sys/fs/cgroup/memory") {
		t.Errorf("memory in %s", m.v1["memory"])
	}
}

func TestHierarchiesGiveEachDirectoryOnce(t *testing.T) {
	_, root := mountsOf(t, v1Mounts)
	h, err := ReadHierarchies(root)
	if err != nil || h.Version != V1 {
		t.Fatal(h.Version, err)
	}
	if dirs := h.Delegable(); len(dirs) != 8 {
		t.Errorf("%q", dirs)
	}
}
