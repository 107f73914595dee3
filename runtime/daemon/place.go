package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// cgroup2Mount is where a machine whose controllers are on v2 has its hierarchy.
const cgroup2Mount = "/sys/fs/cgroup"

// place is where in the control groups a keeper's daemon and sandboxes are.
type place struct {
	version  host.Version
	all      string // the group that holds whatever must go when the daemon goes
	hostPath string // sandboxes', from outside
	specPath string // sandboxes', as specs must name it
	dir      string // v2: the directory of all, which the daemon starts in
}

// findPlace prepares the groups for this keeper. On v1 they are below those that `thawpool setup` delegated, and only
// sandboxes are in them. On v2 the keeper runs in a delegated unit and moves itself to a leaf, since only a group without
// processes of its own can hand controllers on; the daemon gets a group beside it, as the root of its cgroup namespace.
func findPlace(l layout) (place, error) {
	v, err := host.CgroupVersion()
	if err != nil {
		return place{}, err
	}
	uid := os.Geteuid()
	if v == host.V1 {
		base, err := host.Delegated(uid)
		if err != nil {
			return place{}, err
		}
		path := filepath.Join(base, l.id)
		return place{version: v, all: path, hostPath: path, specPath: path}, nil
	}
	own, err := groupOf("/proc/self/cgroup")
	if err != nil {
		return place{}, err
	}
	if filepath.Base(own) == "keeper" { // moved there before
		own = filepath.Dir(own)
	}
	p := place{version: v, all: filepath.Join(own, "daemon"), specPath: "/sandboxes"}
	p.hostPath = filepath.Join(p.all, "sandboxes")
	p.dir = filepath.Join(cgroup2Mount, p.all)
	unit := filepath.Join(cgroup2Mount, own)
	if err := occupy(unit); err != nil {
		return place{}, runtime.WithHint(fmt.Errorf("%w: no control group is delegated to this process: %w", runtime.ErrUnsupported, err),
			"do not start the daemon by hand: thawpool starts it as a unit of systemd when it is needed")
	}
	return p, handOn(unit)
}

// occupy has this process leave the unit's group at dir for one below it.
func occupy(dir string) error {
	keeper := filepath.Join(dir, "keeper")
	if err := os.Mkdir(keeper, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(keeper, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

// handOn gives the controllers of the unit's group at dir to the groups below it.
func handOn(dir string) error {
	missing, err := host.MissingV2(dir)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return runtime.WithHint(fmt.Errorf("%w: the systemd user manager started before the controllers %s were delegated to it",
			runtime.ErrUnsupported, strings.Join(missing, ", ")), host.RestartManagerCommand(os.Geteuid()))
	}
	for _, c := range host.NeededV2 {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("hand on the %s controller: %w", c, err)
		}
	}
	return nil
}

// groupOf reads a process's v2 group from its cgroup file.
func groupOf(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s names no v2 control group", runtime.ErrUnsupported, file)
}
