package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	probeMemory = int64(16 << 20) // bytes; any page-aligned number that no group has by itself
	probePIDs   = int64(7)        // any small number that no group has by itself
	probeWait   = time.Second     // bounds the clean-up of an empty group
)

// groups checks the delegated control groups, and proves on an empty one that limits are kept and the freezer works: a
// sandbox must never run without them.
func (h machine) groups(uid int) []Check {
	base, delegated := h.delegated(uid)
	limits := Check{ID: "limits", Title: "memory and process limits, freezer", Fatal: true}
	switch {
	case !delegated.OK:
		return []Check{delegated}
	case uid != h.euid:
		return []Check{delegated, limits.passed("not tried: %s is another user", h.name(uid))}
	}
	m, err := readMounts(h.root)
	if err != nil {
		return []Check{delegated, limits.failed(err)}
	}
	v, err := m.version()
	if err != nil {
		return []Check{delegated, limits.failed(err)}
	}
	g := Group{version: v, mounts: m, path: filepath.Join(base, "thawpool-probe-"+strconv.Itoa(os.Getpid()))}
	if err := h.probe(g); err != nil {
		return []Check{delegated, limits.broken(h.setupCommand(uid), "the control group %s cannot be limited or frozen: %v", g.path, err)}
	}
	return append([]Check{delegated, limits.passed("tried")}, h.lingering(v, uid)...)
}

// lingering warns on v2 when sandboxes end with the user's last session: systemd then stops the user manager, and the
// daemon in it.
func (h machine) lingering(v Version, uid int) []Check {
	if v != V2 {
		return nil
	}
	c := Check{ID: "lingering", Title: "user manager without a session"}
	if !exists(h.path("/var/lib/systemd/linger/" + h.name(uid))) {
		return []Check{c.broken(h.setupCommand(uid), "the daemon and its sandboxes end with the last session of %s", h.name(uid))}
	}
	return []Check{c.passed("stays")}
}

// probeGroup makes g, sets and reads back its limits, freezes and thaws it, and removes it.
func probeGroup(g Group) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeWait)
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Kill(ctx))
		}
		err = errors.Join(err, g.Remove())
	}()
	memory, pids := "memory.limit_in_bytes", "pids.max"
	if g.version == V2 {
		memory = "memory.max"
	}
	for controller, file := range map[string]string{"memory": memory, "pids": pids, "freezer": ""} {
		if err := os.Mkdir(g.dir(controller), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if file == "" {
			continue
		}
		if err := probeLimit(g, controller, file); err != nil {
			return err
		}
	}
	return probeFreezer(g)
}

// probeLimit sets a limit and reads it back. On v2 the files appear only once somebody needs the controller; systemd
// enables it for the unit that asks for delegation, so their absence here says nothing.
func probeLimit(g Group, controller, file string) error {
	path := filepath.Join(g.dir(controller), file)
	want := probeMemory
	if controller == "pids" {
		want = probePIDs
	}
	if _, err := os.Stat(path); g.version == V2 && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := writeFile(path, strconv.FormatInt(want, 10)); err != nil {
		return err
	}
	if got, err := readLimit(path); err != nil || got != want {
		return fmt.Errorf("%s is %d after %d was written: %w", path, got, want, errors.Join(err, unix.EINVAL))
	}
	return nil
}

// probeFreezer freezes and thaws the empty group. An empty v1 group is FROZEN at once.
func probeFreezer(g Group) error {
	if err := g.SetFrozen(true); err != nil {
		return err
	}
	frozen, err := g.Frozen()
	if err == nil && !frozen {
		err = errors.New("not frozen after a freeze")
	}
	return errors.Join(err, g.SetFrozen(false))
}
