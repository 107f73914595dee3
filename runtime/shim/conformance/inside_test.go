//go:build integration

package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/shim"
)

// enter is run in the daemon's namespaces. It moves into the daemon's own control group ($1, for v1) and goes on in a
// control group and a mount namespace of its own, with that group as the root.
const enter = `set -e
group=$1; shift
if [ -n "$group" ]; then
  for above in /sys/fs/cgroup/*/"$(dirname "$group")"; do
    d=$above/$(basename "$group")
    mkdir -p "$d"
    for set in cpus mems; do
      if [ -e "$d/cpuset.$set" ]; then cat "$above/cpuset.$set" > "$d/cpuset.$set"; fi
    done
    echo 0 > "$d/cgroup.procs"
  done
fi
exec unshare --cgroup --mount "$@"`

// runInside is the test binary below enter: it gives the suite the directories it wants, a registry, and our programs.
func runInside(dir, bin, suite, pattern string) error {
	if err := mountOwn(dir); err != nil {
		return fmt.Errorf("prepare the mounts: %w", err)
	}
	ca := filepath.Join(dir, "ca.pem")
	if err := serveImages(ca); err != nil {
		return fmt.Errorf("serve images: %w", err)
	}
	cmd := exec.Command(suite, "-test.root", "-test.v", "-test.timeout", "5m", "-test.run", pattern)
	cmd.Dir = dir
	// A flavor that is not runc leaves out what puts a failing runc in its place: this shim starts none.
	cmd.Env = append(os.Environ(), "TEST_RUNTIME="+shim.Name, "RUNC_FLAVOR=none", "TMPDIR=/tmp", "SSL_CERT_FILE="+ca,
		"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// mountOwn puts directories of dir in the place of those that the suite's daemon would share with the machine, and on v1
// shows the control groups from this namespace's root.
func mountOwn(dir string) error {
	for _, shared := range []string{"/tmp", "/opt", "/var/lib", "/run"} {
		own := filepath.Join(dir, "own", shared)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(own, shared, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", shared, err)
		}
	}
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost "+registryHost+"\n"), 0o644); err != nil { //nolint:gosec // as /etc/hosts is
		return err
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("/etc/hosts: %w", err)
	}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		at, fs := strings.Fields(before), strings.Fields(after)
		if len(at) < 5 || len(fs) < 3 || fs[0] != "cgroup" {
			continue
		}
		// Mounted aside first: the kernel refuses a file system on itself, but not a bind mount.
		aside := filepath.Join(dir, "own", at[4])
		options := strings.TrimPrefix(strings.TrimPrefix(fs[2], "rw,"), "ro,")
		if err := errors.Join(os.MkdirAll(aside, 0o755), unix.Mount("cgroup", aside, "cgroup", 0, options),
			unix.Mount(aside, at[4], "", unix.MS_BIND, "")); err != nil {
			return fmt.Errorf("%s with %s: %w", at[4], options, err)
		}
	}
	return nil
}
