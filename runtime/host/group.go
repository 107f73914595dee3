package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
)

const (
	// freezeWait bounds how long a freeze may take to be confirmed by the kernel; libcontainer allows the same.
	freezeWait = 10 * time.Second
	// removeWait bounds how long a directory may stay busy after its last process has gone: the kernel takes dead
	// processes out of a group a moment after they stop existing for everybody else.
	removeWait = 2 * time.Second
	// Unlimited is what the limit readers answer where the kernel has no limit set.
	Unlimited = int64(-1)
)

// errWholeMachine guards the operations that would take down everything if a path came out empty.
var errWholeMachine = errors.New("refusing to touch the root control group")

// Group is one control group, in every hierarchy that has it. It holds no resources and may be copied; the group need
// not exist yet. All methods work as the owner of the delegated tree, from outside the user namespace, and are safe for
// concurrent use as far as the kernel's files are.
type Group struct {
	version Version
	path    string // below the mount points, clean, starting with "/"
	mounts  mounts
	err     error // the mount table could not be read
}

// OpenGroup names the group at path, which is relative to the cgroup mounts ("/thawpool-1001/abc/sb-1"). It touches
// nothing: what is wrong shows at the first use.
func OpenGroup(v Version, path string) Group {
	m, err := hostMounts()
	return Group{version: v, path: filepath.Clean("/" + path), mounts: m, err: err}
}

// Path is the group's path below the cgroup mounts.
func (g Group) Path() string { return g.path }

// dir is the group's directory in the hierarchy of one controller.
func (g Group) dir(controller string) string {
	if g.version == V2 {
		return filepath.Join(g.mounts.v2, g.path)
	}
	return filepath.Join(g.mounts.v1[controller], g.path)
}

// dirs are the group's directories in all hierarchies, each once, also those that do not exist.
func (g Group) dirs() []string {
	if g.version == V2 {
		return []string{filepath.Join(g.mounts.v2, g.path)}
	}
	all := make([]string, 0, len(g.mounts.dirs))
	for _, dir := range g.mounts.dirs {
		all = append(all, filepath.Join(dir, g.path))
	}
	return all
}

// check says whether the group can be used at all; changing is for operations that must never meet the root group.
func (g Group) check(changing bool) error {
	switch {
	case g.err != nil:
		return g.err
	case g.version == V1 && len(g.mounts.dirs) == 0, g.version == V2 && g.mounts.v2 == "":
		return fmt.Errorf("%w: cgroup %s is not mounted", runtime.ErrUnsupported, g.version)
	case g.version != V1 && g.version != V2:
		return fmt.Errorf("unknown cgroup version %d", int(g.version))
	case changing && g.path == "/":
		return errWholeMachine
	}
	return nil
}

// Usage reads what the kernel has counted for the group. MemoryPeak is only the present use on v2 kernels older than
// 5.19, which keep no peak. A group that does not exist is fs.ErrNotExist.
func (g Group) Usage() (runtime.Usage, error) {
	if err := g.check(false); err != nil {
		return runtime.Usage{}, err
	}
	if g.version == V2 {
		return g.usageV2()
	}
	return g.usageV1()
}

// Frozen tells whether every process of the group is frozen now.
func (g Group) Frozen() (bool, error) {
	if err := g.check(false); err != nil {
		return false, err
	}
	if g.version == V2 {
		return g.frozenV2()
	}
	return g.frozenV1()
}

// SetFrozen freezes the group and returns once the kernel confirms it, or thaws it, which needs no confirmation.
func (g Group) SetFrozen(frozen bool) error {
	if err := g.check(true); err != nil {
		return err
	}
	var err error
	if g.version == V2 {
		err = g.setFrozenV2(frozen)
	} else {
		err = g.setFrozenV1(frozen)
	}
	if err != nil {
		return fmt.Errorf("freezer of %s: %w", g.path, err)
	}
	return nil
}

// Procs are the processes in the group and the groups below it, by the caller's pid namespace, sorted, each once. A
// group that does not exist has none.
func (g Group) Procs() ([]int, error) {
	if err := g.check(false); err != nil {
		return nil, err
	}
	var pids []int
	for _, dir := range g.dirs() {
		more, err := procsBelow(dir)
		if err != nil {
			return nil, err
		}
		pids = append(pids, more...)
	}
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// Kill ends every process in the group, frozen or not, and returns when none is left or ctx ends. A group that does not
// exist is already empty.
func (g Group) Kill(ctx context.Context) error {
	if err := g.check(true); err != nil {
		return err
	}
	var err error
	if g.version == V2 {
		err = g.killV2(ctx)
	} else {
		err = g.killBySignal(ctx)
	}
	if err != nil {
		return fmt.Errorf("kill group %s: %w", g.path, err)
	}
	return nil
}

// killBySignal signals until nothing is left. A frozen v1 process dies only after its thaw, so each round thaws too.
// No process may be born meanwhile: pids.max 0 makes every fork fail, which ends a fork bomb in one round. The first look
// is at one hierarchy, which has all processes as a rule; the last is at all of them.
func (g Group) killBySignal(ctx context.Context) error {
	pids, err := procsBelow(g.dir("freezer"))
	if err == nil && len(pids) == 0 {
		pids, err = g.Procs()
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if err != nil || len(pids) == 0 {
			return err
		}
		g.forbidForks()
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("process %d: %w", pid, err)
			}
		}
		g.thawAll()
		if err := g.emptied(ctx, wait); err != nil {
			return fmt.Errorf("%d processes are still alive: %w", len(pids), err)
		}
		pids, err = g.Procs()
	}
}

// emptied waits for killed processes to go, at most for as long as wait. It looks at one hierarchy only: a look at all of
// them costs as much as all else that a kill does.
func (g Group) emptied(ctx context.Context, wait time.Duration) error {
	file := filepath.Join(g.dir("freezer"), "cgroup.procs")
	for since, step := time.Now(), 500*time.Microsecond; ; step = min(2*step, 4*time.Millisecond) {
		if err := pause(ctx, step); err != nil {
			return err
		}
		left, err := os.ReadFile(file)
		if len(left) == 0 || err != nil || time.Since(since) > wait {
			return nil // the next full look tells
		}
	}
}

// forbidForks is only a help for killBySignal, which works without it: an error is no news.
func (g Group) forbidForks() {
	_ = writeFile(filepath.Join(g.dir("pids"), "pids.max"), "0")
}

// thawAll thaws the group and those below it, which may have been frozen on their own.
func (g Group) thawAll() {
	file, value := "freezer.state", "THAWED"
	if g.version == V2 {
		file, value = "cgroup.freeze", "0"
	}
	for _, dir := range tree(g.dir("freezer")) {
		_ = writeFile(filepath.Join(dir, file), value) // a group that vanished is thawed enough
	}
}

// Remove takes the group and all below it away in every hierarchy. It must hold no process. A group that does not exist
// is no error.
func (g Group) Remove() error {
	if err := g.check(true); err != nil {
		return err
	}
	dirs := g.dirs()
	if g.version == V1 && g.mounts.v2 != "" { // runc on a hybrid host also makes one there
		dirs = append(dirs, filepath.Join(g.mounts.v2, g.path))
	}
	var errs []error
	deadline := time.Now().Add(removeWait)
	for _, dir := range dirs {
		errs = append(errs, removeTree(dir, deadline))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove group %s: %w", g.path, err)
	}
	return nil
}

// Children are the names of the groups directly below this one, sorted. A group that does not exist has none.
func (g Group) Children() ([]string, error) {
	if err := g.check(false); err != nil {
		return nil, err
	}
	var names []string
	for _, dir := range g.dirs() {
		more, err := subdirs(dir)
		if err != nil {
			return nil, fmt.Errorf("list groups below %s: %w", g.path, err)
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// SetCPUWeight sets the share of the processor that the group gets under contention: 1 to 10000, and 100 is the
// kernel's default, as in cgroup v2. On v1 it becomes cpu.shares, where 1024 is the default.
func (g Group) SetCPUWeight(weight int) error {
	if err := g.check(true); err != nil {
		return err
	}
	if weight < 1 || weight > 10000 {
		return fmt.Errorf("cpu weight %d is outside 1 to 10000", weight)
	}
	if g.version == V2 {
		return writeFile(filepath.Join(g.dir("cpu"), "cpu.weight"), strconv.Itoa(weight))
	}
	return writeFile(filepath.Join(g.dir("cpu"), "cpu.shares"), strconv.Itoa(max(2, weight*1024/100)))
}

// CPUWeight is the share that SetCPUWeight sets.
func (g Group) CPUWeight() (int, error) {
	if err := g.check(false); err != nil {
		return 0, err
	}
	if g.version == V2 {
		weight, err := readInt(filepath.Join(g.dir("cpu"), "cpu.weight"))
		return int(weight), err
	}
	shares, err := readInt(filepath.Join(g.dir("cpu"), "cpu.shares"))
	return int(shares * 100 / 1024), err
}

// MemoryLimit is the group's own memory limit in bytes, or Unlimited.
func (g Group) MemoryLimit() (int64, error) {
	if err := g.check(false); err != nil {
		return 0, err
	}
	if g.version == V2 {
		return readLimit(filepath.Join(g.dir("memory"), "memory.max"))
	}
	return readLimit(filepath.Join(g.dir("memory"), "memory.limit_in_bytes"))
}

// PIDsLimit is how many processes and threads the group itself may hold, or Unlimited.
func (g Group) PIDsLimit() (int64, error) {
	if err := g.check(false); err != nil {
		return 0, err
	}
	return readLimit(filepath.Join(g.dir("pids"), "pids.max"))
}
