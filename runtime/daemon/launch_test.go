package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime"
)

// systemdRun puts a program of that name in PATH.
func systemdRun(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "systemd-run"), []byte("#!/bin/sh\ncd "+dir+"\n"+script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// A unit whose keeper has just ended is waited for, as its name is still taken.
func TestUnitThatIsStillEnding(t *testing.T) {
	dir := systemdRun(t, `echo >>tries
[ $(wc -l <tries) -lt 3 ] || exit 0
echo "Failed to start transient service unit: Unit thawpool-x.service was already loaded or has a fragment file." >&2
exit 1
`)
	if _, err := launchUnit(t.Context(), []string{"keeper"}, openTestLayout(t), os.Getuid()); err != nil {
		t.Error(err)
	}
	if tries, err := os.ReadFile(filepath.Join(dir, "tries")); err != nil || string(tries) != "\n\n\n" {
		t.Errorf("tried %d times, %v", len(tries), err)
	}
}

// Without a user manager it is no use to wait.
func TestUnitThatCannotBe(t *testing.T) {
	systemdRun(t, "echo 'Failed to connect to user scope bus via local transport: No such file or directory' >&2; exit 1\n")
	_, err := launchUnit(t.Context(), []string{"keeper"}, openTestLayout(t), os.Getuid())
	if !errors.Is(err, runtime.ErrUnsupported) || !strings.Contains(err.Error(), " setup)") {
		t.Error(err)
	}
}

func TestUserRuntimeDir(t *testing.T) {
	own := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", own)
	if got := userRuntimeDir(os.Getuid()); got != own {
		t.Errorf("one's own is not taken: %s", got)
	}
	if got := userRuntimeDir(os.Getuid() + 1); got == own {
		t.Error("another user's is taken")
	}
}
