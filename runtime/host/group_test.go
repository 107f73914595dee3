package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime"
)

// fakeGroup is a group of files in a directory instead of the kernel's.
func fakeGroup(t *testing.T, v Version, path string) Group {
	t.Helper()
	table := v1Mounts
	if v == V2 {
		table = v2Mounts
	}
	m, _ := mountsOf(t, table)
	return Group{version: v, path: path, mounts: m}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

func TestUsage(t *testing.T) {
	want := runtime.Usage{CPU: 1500 * time.Millisecond, MemoryPeak: 4096, OOMKills: 3}
	t.Run("v1", func(t *testing.T) {
		g := fakeGroup(t, V1, "/a/b")
		put(t, g.dir("cpuacct"), "cpuacct.usage", "1500000000\n")
		put(t, g.dir("memory"), "memory.max_usage_in_bytes", "4096\n")
		put(t, g.dir("memory"), "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
		if got, err := g.Usage(); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	})
	t.Run("v2", func(t *testing.T) {
		g := fakeGroup(t, V2, "/a/b")
		put(t, g.dir(""), "cpu.stat", "usage_usec 1500000\nuser_usec 1\nsystem_usec 2\n")
		put(t, g.dir(""), "memory.current", "17\n")
		put(t, g.dir(""), "memory.events", "low 0\nhigh 0\nmax 4\noom 3\noom_kill 3\noom_group_kill 1\n")
		if got, err := g.Usage(); err != nil || got.MemoryPeak != 17 {
			t.Errorf("without memory.peak: %+v, %v", got, err)
		}
		put(t, g.dir(""), "memory.peak", "4096\n")
		if got, err := g.Usage(); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	})
	for _, v := range []Version{V1, V2} {
		if _, err := fakeGroup(t, v, "/gone").Usage(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: a group that does not exist: %v", v, err)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		version              Version
		file, memory, pids   string
		wantMemory, wantPIDs int64
	}{
		{V1, "memory.limit_in_bytes", "536870912", "128", 536870912, 128},
		{V1, "memory.limit_in_bytes", "9223372036854771712", "max", Unlimited, Unlimited},
		{V2, "memory.max", "536870912", "128", 536870912, 128},
		{V2, "memory.max", "max", "max", Unlimited, Unlimited},
	} {
		g := fakeGroup(t, tt.version, "/a")
		put(t, g.dir("memory"), tt.file, tt.memory+"\n")
		put(t, g.dir("pids"), "pids.max", tt.pids+"\n")
		memory, merr := g.MemoryLimit()
		pids, perr := g.PIDsLimit()
		if memory != tt.wantMemory || pids != tt.wantPIDs || merr != nil || perr != nil {
			t.Errorf("%+v: %d %v, %d %v", tt, memory, merr, pids, perr)
		}
	}
}

func TestCPUWeight(t *testing.T) {
	for _, tt := range []struct {
		version Version
		file    string
		weight  int
		want    string
	}{
		{V1, "cpu.shares", 100, "1024"}, {V1, "cpu.shares", 10000, "102400"}, {V1, "cpu.shares", 1, "10"},
		{V2, "cpu.weight", 100, "100"},
	} {
		g := fakeGroup(t, tt.version, "/a")
		put(t, g.dir("cpu"), tt.file, "")
		if err := g.SetCPUWeight(tt.weight); err != nil {
			t.Error(err)
		}
		if got, _ := os.ReadFile(filepath.Join(g.dir("cpu"), tt.file)); string(got) != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
	}
	for _, weight := range []int{0, -1, 10001} {
		if err := fakeGroup(t, V2, "/a").SetCPUWeight(weight); err == nil {
			t.Errorf("weight %d was accepted", weight)
		}
	}
}

func TestProcsAndChildrenOfEveryHierarchy(t *testing.T) {
	g := fakeGroup(t, V1, "/a")
	put(t, g.dir("memory"), "cgroup.procs", "12\n7\n")
	put(t, filepath.Join(g.dir("freezer"), "x", "deep"), "cgroup.procs", "7\n30\n0\n")
	put(t, filepath.Join(g.dir("freezer"), "x"), "cgroup.procs", "")
	put(t, filepath.Join(g.dir("pids"), "y"), "cgroup.procs", "")
	pids, err := g.Procs()
	if err != nil || !slices.Equal(pids, []int{7, 12, 30}) {
		t.Errorf("%v, %v", pids, err)
	}
	names, err := g.Children()
	if err != nil || !slices.Equal(names, []string{"x", "y"}) {
		t.Errorf("%v, %v", names, err)
	}
}

func TestGroupThatDoesNotExist(t *testing.T) {
	for _, v := range []Version{V1, V2} {
		g := fakeGroup(t, v, "/gone")
		pids, perr := g.Procs()
		names, cerr := g.Children()
		if err := errors.Join(perr, cerr, g.Kill(t.Context()), g.Remove()); err != nil || len(pids)+len(names) > 0 {
			t.Errorf("%v: %v %v, %v", v, pids, names, err)
		}
		if _, err := g.Frozen(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: frozen: %v", v, err)
		}
		if err := g.SetFrozen(true); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v: freeze: %v", v, err)
		}
	}
}

// An empty path must never reach the whole machine.
func TestRootGroupIsNotTouched(t *testing.T) {
	for _, v := range []Version{V1, V2} {
		for _, path := range []string{"", "/", "..", "/a/../.."} {
			g := OpenGroup(v, path)
			if g.Path() != "/" {
				t.Errorf("%q became %q", path, g.Path())
			}
			for name, err := range map[string]error{
				"kill": g.Kill(context.Background()), "remove": g.Remove(), "freeze": g.SetFrozen(true), "weight": g.SetCPUWeight(1),
			} {
				if err == nil {
					t.Errorf("%v: %s of %q went through", v, name, path)
				}
			}
		}
	}
}

func TestRemoveTakesAllLevelsEverywhere(t *testing.T) {
	g := fakeGroup(t, V1, "/a")
	for _, dir := range append(g.dirs(), filepath.Join(g.mounts.v2, "a")) {
		if err := os.MkdirAll(filepath.Join(dir, "b", "c"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(g.dirs(), filepath.Join(g.mounts.v2, "a")) {
		if exists(dir) {
			t.Errorf("%s is left", dir)
		}
	}
}

func TestUnknownVersionIsRefused(t *testing.T) {
	if _, err := OpenGroup(Version(3), "/a").Usage(); err == nil {
		t.Error("accepted")
	}
}
