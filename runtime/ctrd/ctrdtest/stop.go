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

// Keeper is the process that keeps this environment's daemon, if one runs.
func (e *Env) Keeper() (host.Owner, bool) {
	var record struct{ Keeper string }
	data, err := os.ReadFile(filepath.Join(e.StateDir, "keeper.json"))
	if err != nil || json.Unmarshal(data, &record) != nil {
		return host.Owner{}, false
	}
	owner, err := host.ParseOwner(record.Keeper)
	return owner, err == nil && owner.Alive()
}

// Stop ends the daemon and waits until its keeper has gone.
func (e *Env) Stop(t testing.TB) {
	t.Helper()
	Await(t, "daemon stops", func() error {
		owner, ok := e.Keeper()
		if !ok {
			return nil
		}
		if err := syscall.Kill(owner.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return fmt.Errorf("keeper %d still runs", owner.PID)
	})
}
