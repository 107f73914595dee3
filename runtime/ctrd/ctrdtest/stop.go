package ctrdtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/runtime/host"
)

// record is what the keeper says of itself.
type record struct {
	Keeper   string
	Phase    string
	Error    string
	Cgroup   host.Version
	HostPath string
}

func (e *Env) record() (r record, err error) {
	data, err := os.ReadFile(filepath.Join(e.StateDir, "keeper.json"))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// Keeper is the process that keeps this environment's daemon, if one runs.
func (e *Env) Keeper() (host.Owner, bool) {
	r, err := e.record()
	if err != nil {
		return host.Owner{}, false
	}
	owner, err := host.ParseOwner(r.Keeper)
	if err != nil || !owner.Alive() {
		return host.Owner{}, false
	}
	return owner, true
}

// Stop ends the daemon and waits until its keeper has gone.
func (e *Env) Stop(t testing.TB) {
	t.Helper()
	if err := await("daemon stops", e.stop); err != nil {
		t.Fatal(err)
	}
}

func (e *Env) stop() error {
	owner, ok := e.Keeper()
	if !ok {
		return nil
	}
	if err := syscall.Kill(owner.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return fmt.Errorf("keeper %d still runs", owner.PID)
}

// RemoveState stops the daemon of a state directory that no test owns, and removes the directory and its parent, which
// was made for it.
func RemoveState(dir string) error {
	e := &Env{StateDir: dir}
	return errors.Join(await("daemon stops", e.stop), os.RemoveAll(filepath.Dir(dir)))
}

// Find is the first process of the keeper's tree whose program has that name.
func (e *Env) Find(t testing.TB, name string) Process {
	t.Helper()
	tree, err := e.Tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tree {
		if p.Is(name) {
			return p
		}
	}
	t.Fatalf("no process %s among %v", name, tree)
	return Process{}
}
