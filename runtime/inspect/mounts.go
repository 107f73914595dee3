package inspect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Mount is one mount as the sandbox has it.
type Mount struct {
	Path    string   `json:"path"`
	Type    string   `json:"type"`
	Options []string `json:"options"` // of the mount and of the file system, sorted
}

// readMounts tells masks, read-only paths of /proc and device nodes from the rest.
func readMounts(r *Report, dir string) error {
	f, err := os.Open(filepath.Join(dir, "mountinfo"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	infos, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return err
	}
	for _, info := range infos {
		m := mountOf(info)
		readOnly := slices.Contains(m.Options, "ro")
		// A mask is the null device over a file, an empty read-only tmpfs over a directory.
		isNull := info.Root == "/null" || strings.HasSuffix(info.Root, "/dev/null")
		switch {
		case m.Path == "/":
			r.Root = m
		case strings.HasPrefix(m.Path, "/proc/") && (isNull || info.FSType == "tmpfs" && readOnly):
			r.Masked = append(r.Masked, m.Path)
		case strings.HasPrefix(m.Path, "/proc/") && info.FSType == "proc" && readOnly:
			r.ReadOnly = append(r.ReadOnly, m.Path)
		case filepath.Dir(m.Path) == "/dev" && filepath.Base(info.Root) == filepath.Base(m.Path):
			r.Devices = append(r.Devices, m.Path)
		default:
			r.Mounts = append(r.Mounts, m)
		}
	}
	for _, paths := range [][]string{r.Masked, r.ReadOnly, r.Devices} {
		slices.Sort(paths)
	}
	slices.SortFunc(r.Mounts, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// mountOf merges a mount's options with its file system's, of which "rw" says nothing once the mount is read-only.
func mountOf(info *mountinfo.Info) Mount {
	options := strings.Split(info.Options, ",")
	for o := range strings.SplitSeq(info.VFSOptions, ",") {
		if o != "rw" && o != "ro" && !slices.Contains(options, o) && !strings.Contains(o, "dir=") { // paths of the host
			options = append(options, o)
		}
	}
	slices.Sort(options)
	return Mount{Path: info.Mountpoint, Type: info.FSType, Options: options}
}
