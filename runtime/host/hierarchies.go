package host

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

// Hierarchies are the cgroup mounts of a machine, for the code that prepares it.
type Hierarchies struct {
	Version Version
	V1      map[string]string // controller, or "systemd", to mount point
	V2      string            // the cgroup2 mount, or ""
	mounts  mounts
}

// ReadHierarchies reads the mounts below root, which is "" for this machine and a directory that looks like one in tests.
func ReadHierarchies(root string) (Hierarchies, error) {
	m, err := readMounts(root)
	if err != nil {
		return Hierarchies{}, err
	}
	v, err := m.version()
	return Hierarchies{Version: v, V1: m.v1, V2: m.v2, mounts: m}, err
}

// Group is OpenGroup on these mounts.
func (h Hierarchies) Group(path string) Group {
	return Group{version: h.Version, path: filepath.Clean("/" + path), mounts: h.mounts}
}

// Delegable are the mount points of the v1 hierarchies that an account needs a directory in, each once and sorted.
func (h Hierarchies) Delegable() []string {
	var dirs []string
	for _, name := range NeededV1 {
		if dir := h.V1[name]; dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// profileMark begins the lines of the AppArmor profile file that name a directory of allowed programs, which may end in
// an element "*".
const profileMark = "# allows: "

// ProfileLine is the line that marks dir as allowed in the AppArmor profile file.
func ProfileLine(dir string) string { return profileMark + dir + "\n" }

// ProfileDirs are the directories that the text of the AppArmor profile file allows, in its order.
func ProfileDirs(text []byte) []string {
	var dirs []string
	for line := range bytes.Lines(text) {
		if dir, ok := strings.CutPrefix(strings.TrimSpace(string(line)), profileMark); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// ProfileAllows tells whether the text of the AppArmor profile file allows the programs of binDir.
func ProfileAllows(text []byte, binDir string) bool {
	return slices.ContainsFunc(ProfileDirs(text), func(dir string) bool {
		ok, err := filepath.Match(dir, binDir)
		return dir == binDir || err == nil && ok
	})
}

// SubIDCount is how many subordinate ids file grants to an account on this machine, directory services included.
func SubIDCount(file, name string, uid int) int64 {
	count, err := realHost.countSubIDs(file, name, uid)
	if err != nil {
		return 0
	}
	return count
}
