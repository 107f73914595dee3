//go:build integration

package endtoend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// wrapper is a program that fails or hangs when it is told to, and else is the one that it stands for.
const wrapper = `#!/bin/sh
case $(cat %[1]q 2>/dev/null) in
"%[2]s fails") echo met >>%[1]q.met; echo "told to fail" >&2; exit 1 ;;
"%[2]s hangs") echo met >>%[1]q.met; exec sleep 600 ;;
esac
exec %[3]q "$@"
`

// programs makes a directory of programs of which some can be told to fail or hang, by the file tell.
func programs(t *testing.T, wrapped ...string) (dir, tell string) {
	t.Helper()
	top, err := os.MkdirTemp("/var/tmp", "tpf-") //nolint:usetesting // outlives the daemon that runs from it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	dir, tell = filepath.Join(top, "bin"), filepath.Join(top, "tell")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(ctrdtest.BinDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if err := os.Symlink(filepath.Join(ctrdtest.BinDir(), e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range wrapped {
		text := fmt.Sprintf(wrapper, tell, name, filepath.Join(ctrdtest.BinDir(), name))
		path := filepath.Join(dir, name)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	return dir, tell
}

// The programs that containerd runs for a sandbox fail or hang: calls are answered, and work again once the programs do.
func TestFaultPrograms(t *testing.T) {
	const shim, remover = "containerd-shim-thawpool-v1", "thawpool-delete"
	dir, tell := programs(t, shim, remover)
	e, base := env(t)
	for _, how := range []string{shim + " fails", shim + " hangs", remover + " fails", remover + " hangs"} {
		t.Run(how, func(t *testing.T) {
			sc := newScene(t, e, "--bin-dir", dir, "--pool-size", "1", "--pool-max", "4", "--pool-empty", "cold", "--shim-tasks", "2")
			sc.s.open()
			sc.awaitFrozen(1)
			if err := os.WriteFile(tell, []byte(how), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 6 { // more than one shim has room for
				sc.call("calls at once", "import time\ntime.sleep(1)")
			}
			ctrdtest.Await(t, "the program is run", func() error {
				_, err := os.Stat(tell + ".met")
				return err
			})
			time.Sleep(stopped) // while it lasts
			if err := errors.Join(os.Remove(tell), os.Remove(tell+".met")); err != nil {
				t.Fatal(err)
			}
			sc.settle(report{fault: how, stage: procServing, began: time.Now(), base: base})
		})
	}
}
