package runtime

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
)

var update = flag.Bool("update", false, "rewrite golden files")

func example() SpecConfig {
	return SpecConfig{
		Args:        []string{"/usr/bin/python3", "-I", "/opt/thawpool/runner.py"},
		Env:         []string{"PATH=/usr/bin:/bin"},
		CgroupsPath: "/thawpool-1001/x/sb-1",
		Limits:      DefaultLimits(),
		Annotations: map[string]string{"io.containerd.runc.v2.group": "g1"},
		Host: SpecHost{SwapAccounting: true, HardLimits: map[string]uint64{
			"RLIMIT_CORE": 1 << 40, "RLIMIT_NOFILE": 512, "RLIMIT_MEMLOCK": 8 << 20, "RLIMIT_MSGQUEUE": 819200,
		}},
	}
}

func TestSpecGolden(t *testing.T) {
	t.Parallel()
	s := NewSpec(example())
	// The list of allowed calls differs by architecture and containerd version; its own test says what must hold.
	s.Linux.Seccomp = nil
	got, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	file := filepath.Join("testdata", "spec.golden.json")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("the spec differs from %s; -update rewrites it\n%s", file, got)
	}
}

func TestSpecHost(t *testing.T) {
	t.Parallel()
	c := example()
	c.Host = SpecHost{CgroupV2: true, OOMScoreAdj: 900}
	s := NewSpec(c)
	if s.Linux.Resources.Unified["memory.oom.group"] != "1" {
		t.Error("no group OOM kill on cgroup v2")
	}
	if s.Linux.Resources.Memory.Swap != nil {
		t.Error("a swap limit where swap cannot be limited makes the runtime fail")
	}
	if *s.Process.OOMScoreAdj != 900 {
		t.Errorf("oom score %d is below the daemon's, which is not permitted", *s.Process.OOMScoreAdj)
	}
	if len(s.Process.Rlimits) != 0 {
		t.Errorf("rlimits %v without knowing the hard ones", s.Process.Rlimits)
	}
}

func TestRlimitsOnlyLowered(t *testing.T) {
	t.Parallel()
	c := example()
	for _, r := range NewSpec(c).Process.Rlimits {
		if r.Hard > c.Host.HardLimits[r.Type] || r.Soft > r.Hard {
			t.Errorf("%s is raised to %d, %d", r.Type, r.Soft, r.Hard)
		}
	}
}

func TestSeccompProfile(t *testing.T) {
	t.Parallel()
	p := seccompProfile()
	if p.DefaultAction != specs.ActErrno {
		t.Errorf("default action %s", p.DefaultAction)
	}
	if len(p.Architectures) != 1 || p.Architectures[0] != arches[goruntime.GOARCH] {
		t.Errorf("architectures %v", p.Architectures)
	}
	free := func(name string) bool { // allowed with any arguments
		return slices.ContainsFunc(p.Syscalls, func(s specs.LinuxSyscall) bool {
			return s.Action == specs.ActAllow && len(s.Args) == 0 && slices.Contains(s.Names, name)
		})
	}
	for _, name := range dropped {
		if free(name) {
			t.Errorf("%s is allowed", name)
		}
	}
	if free("clone") {
		t.Error("clone is allowed with namespaces")
	}
	for _, name := range []string{"read", "write", "futex", "mmap", "execve", "wait4", "openat", "epoll_wait", "socketpair"} {
		if !free(name) {
			t.Errorf("%s is not allowed", name)
		}
	}
}

func TestSeccompDefaultUntouched(t *testing.T) {
	t.Parallel()
	a, b := seccompProfile(), seccompProfile()
	if a != b {
		t.Error("the profile is made more than once")
	}
}
