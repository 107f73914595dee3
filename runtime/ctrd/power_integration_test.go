//go:build integration

package ctrd_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// TestOlderRecords: what containerd records is not synced to disk, but what its snapshotter notes is. So a power cut may
// bring back records that know nothing of the newest snapshots. The very next boot works.
func TestOlderRecords(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	records := filepath.Join(e.StateDir, "root", "io.containerd.metadata.v1.bolt", "meta.db")
	for _, forgotten := range []string{"image and view", "view"} {
		t.Run(forgotten, func(t *testing.T) {
			e.Ensure(t).Close()
			e.Stop(t)
			older, err := os.ReadFile(records)
			if err != nil {
				t.Fatal(err)
			}
			before := ctrdtest.Boot(t, e.Runtime(t), "power-before")
			owner, _ := e.Keeper()
			kill(t, owner.PID, syscall.SIGKILL)
			ended(t, before)
			if err := os.WriteFile(records, older, 0o600); err != nil {
				t.Fatal(err)
			}
			after := ctrdtest.Boot(t, e.Runtime(t), "power-after")
			if out := must(t, after, "print('again')"); out != "again\n" {
				t.Errorf("%q", out)
			}
		})
	}
	e.RequireNone(t, ctrdtest.Leaks{})
}
