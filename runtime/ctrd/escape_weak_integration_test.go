//go:build integration

package ctrd_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
)

// A weakness is a layer or two taken away. dir is a directory that all sandboxes of the test may share.
type weakness struct {
	change func(s *specs.Spec, dir string)
	lost   []layer
}

// weaknesses prove that the suite can fail: in a sandbox without a layer, attempts that this layer must stop succeed or
// are stopped by another one, which is told.
var weaknesses = map[string]weakness{
	"filter":     {func(s *specs.Spec, _ string) { s.Linux.Seccomp = nil }, []layer{seccompLayer}},
	"privilege":  {givePrivilege, []layer{privilege, runnerApart}},
	"namespaces": {shareNamespaces, []layer{namespaces, networkLayer}},
	"mounts":     {openMounts, []layer{mountOptions, procPaths, boundedTmpfs, readOnlyRoot, emptyDevices}},
	"single-use": {shareWorkspace, []layer{singleUse}},
	"limits":     {func(s *specs.Spec, _ string) { s.Process.Rlimits = nil }, []layer{rlimitsLayer, cgroupLayer}},
}

func givePrivilege(s *specs.Spec, _ string) {
	all := []string{"CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_NET_RAW", "CAP_SYS_PTRACE", "CAP_SYS_NICE", "CAP_SYS_RESOURCE"}
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: all, Effective: all, Inheritable: all, Permitted: all, Ambient: all}
	s.Process.NoNewPrivileges = false
}

// shareNamespaces leaves a sandbox in those of the daemon, which are a user's own. /proc can then only be the daemon's.
func shareNamespaces(s *specs.Spec, _ string) {
	s.Linux.Namespaces = []specs.LinuxNamespace{{Type: specs.MountNamespace}}
	s.Hostname, s.Domainname = "", ""
	for i, m := range s.Mounts {
		if m.Destination == "/proc" {
			s.Mounts[i] = specs.Mount{Destination: "/proc", Type: "bind", Source: "/proc", Options: []string{"rbind"}}
		}
	}
}

func openMounts(s *specs.Spec, dir string) {
	s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil
	for i := range s.Mounts {
		s.Mounts[i].Options = slices.DeleteFunc(s.Mounts[i].Options, func(o string) bool {
			return o == "noexec" || o == "nosuid" || o == "nodev" || o == "ro" || strings.HasPrefix(o, "size=") || strings.HasPrefix(o, "nr_inodes=")
		})
	}
	s.Mounts = append(s.Mounts,
		specs.Mount{Destination: guest.Dir + "/runner.py", Type: "bind", Source: filepath.Join(dir, "runner.py"), Options: []string{"bind", "rw"}},
		specs.Mount{Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"rbind", "ro"}})
}

func shareWorkspace(s *specs.Spec, dir string) {
	for i, m := range s.Mounts {
		if m.Destination == "/workspace" {
			s.Mounts[i] = specs.Mount{Destination: m.Destination, Type: "bind", Source: dir, Options: []string{"bind", "rw"}}
		}
	}
}

func TestSuiteSeesWeakness(t *testing.T) {
	taken := []layer{kernelDefault} // is not ours to take away
	for _, w := range weaknesses {
		taken = append(taken, w.lost...)
	}
	for _, a := range attempts {
		if !slices.Contains(taken, a.layer) {
			t.Errorf("no sandbox of this test is without %s", a.layer)
		}
	}
	for name, w := range weaknesses {
		t.Run(name, func(t *testing.T) {
			e, base := env(t)
			t.Cleanup(func() { e.RequireNone(t, base) })
			bin := weakRunc(t, name)
			rt := e.Runtime(t, func(c *ctrd.Config) {
				c.Runtime, c.BinDir = ctrd.RuntimeRunc, bin
				if slices.Contains(w.lost, cgroupLayer) {
					c.Limits.PIDs, c.Limits.Memory = 4000, 4<<30 // without any, the runtime refuses the sandbox by itself
				}
			})
			if text := inspected(t, rt); text == sandboxGolden {
				t.Errorf("doctor --sandbox does not tell this sandbox from a whole one:\n%s", text)
			}
			victim := ctrdtest.Boot(t, rt, "victim")
			layOut(t, victim)
			host := hostOf(t, e, victim, startDecoy(t))
			tried := slices.DeleteFunc(slices.Clone(attempts), func(a attempt) bool { return !slices.Contains(w.lost, a.layer) })
			got := tryAll(t, ctrdtest.Boot(t, rt, "hostile"), host, tried)
			seen := map[layer]int{}
			for _, a := range violations(tried, got) {
				seen[a.layer]++
				t.Logf("seen: %s, %s: %q in place of %q", a.what, a.name, got[a.name], a.want)
			}
			for _, l := range w.lost {
				if seen[l] == 0 {
					t.Errorf("a sandbox without %s passes every attempt that it must stop", l)
				}
			}
			if name == "filter" {
				found := probeCalls(t, rt, "syscalls", 60)
				wrong := strings.Join(found.differences(readList(t)), "\n")
				for _, part := range []string{"system call 27 mincore: allowed", "x32", "i386", "socket 0x10: allowed", "clone 0x10000000: allowed", "prlimit64 0x4: allowed"} {
					if !strings.Contains(wrong, part) {
						t.Errorf("nothing tells of %s in a sandbox without a filter:\n%s", part, wrong)
					}
				}
			}
		})
	}
}

// weakenArg starts the test binary as a runc that weakens what it creates.
const weakenArg = "weaken"

// weakRunc makes a directory with such a runc, and what it needs.
func weakRunc(t *testing.T, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "tp-weak-") //nolint:usetesting // the sandbox's ids must reach it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	shared := filepath.Join(dir, "shared")
	runner, err := fs.ReadFile(guest.Files(), "runner.py")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s %s %s %s \"$@\"\n", self, weakenArg, name, shared, filepath.Join(ctrdtest.BinDir(), "runc"))
	for _, step := range []error{
		os.Chmod(dir, 0o711), os.Mkdir(shared, 0o700), os.Chmod(shared, 0o777),
		os.WriteFile(filepath.Join(shared, "runner.py"), runner, 0o600), os.Chmod(filepath.Join(shared, "runner.py"), 0o666),
		os.WriteFile(filepath.Join(dir, "runc"), []byte(script), 0o755),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	return dir
}

// weaken changes the spec of a bundle that is to be created, and goes on as the real runc. It never returns.
func weaken(args []string) {
	name, shared, runc, rest := args[0], args[1], args[2], args[3:]
	err := func() error {
		if i := slices.Index(rest, "--bundle"); i >= 0 && slices.Contains(rest, "create") {
			file := filepath.Join(rest[i+1], "config.json")
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			var s specs.Spec
			if err := json.Unmarshal(data, &s); err != nil {
				return err
			}
			weaknesses[name].change(&s, shared)
			if data, err = json.Marshal(s); err != nil {
				return err
			}
			if err := os.WriteFile(file, data, 0o600); err != nil {
				return err
			}
		}
		return syscall.Exec(runc, append([]string{runc}, rest...), os.Environ())
	}()
	fmt.Fprintln(os.Stderr, "weaken:", err)
	os.Exit(1)
}
