//go:build integration

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	baseEnv  = "THAWPOOL_TEST_GROUP" // where the child of the test may make groups
	nobody   = 65534                 // the unprivileged user that root's test goes on as
	testWait = 60 * time.Second      // a barrier, never a measure
)

// TestGroupAsUnprivilegedOwner does to real processes in real groups what the pool does, as an ordinary user who owns
// nothing but the delegated tree. Root delegates a tree of its own to nobody and starts the test again as that user; an
// ordinary user works in what `thawpool setup` gave.
func TestGroupAsUnprivilegedOwner(t *testing.T) {
	v, err := CgroupVersion()
	if err != nil {
		t.Fatal(err)
	}
	base := os.Getenv(baseEnv)
	switch {
	case base != "":
	case os.Getuid() == 0 && v == V1:
		runAsNobody(t)
		return
	default:
		if base, err = Delegated(os.Getuid()); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]func(*testing.T, *realGroup){
		"freeze and thaw":            testFreeze,
		"processes at all depths":    testProcs,
		"kill frozen":                testKillFrozen,
		"kill below a frozen group":  testKillNested,
		"kill a fork bomb":           testKillForkBomb,
		"kill ends with its context": testKillContext,
		"oom":                        testOOM,
		"limits":                     testLimits,
		"remove while busy":          testRemoveBusy,
	} {
		t.Run(name, func(t *testing.T) { test(t, newRealGroup(t, v, base)) })
	}
}

func runAsNobody(t *testing.T) {
	base := fmt.Sprintf("/thawpool-test-%d", os.Getpid())
	h, err := ReadHierarchies("")
	if err != nil {
		t.Fatal(err)
	}
	g := h.Group(base)
	t.Cleanup(func() {
		if err := errors.Join(g.Kill(context.Background()), g.Remove()); err != nil {
			t.Error(err)
		}
	})
	for _, mount := range h.Delegable() {
		dir := filepath.Join(mount, base)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, nobody, nobody)); err != nil {
			t.Fatal(err)
		}
	}
	// By its descriptor, since the directory of the test's executable is closed to others.
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = []string{baseEnv + "=" + base, "PATH=" + os.Getenv("PATH"), "TMPDIR=/tmp"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	t.Logf("as nobody:\n%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// realGroup is a group of one subtest.
type realGroup struct {
	Group
	t *testing.T
}

func newRealGroup(t *testing.T, v Version, base string) *realGroup {
	t.Helper()
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	r := &realGroup{OpenGroup(v, filepath.Join(base, fmt.Sprintf("%s-%d", name, os.Getpid()))), t}
	r.mkdir("")
	t.Cleanup(func() {
		if err := errors.Join(r.Kill(context.Background()), r.Remove()); err != nil {
			t.Error(err)
		}
		for _, dir := range r.dirs() {
			if exists(dir) {
				t.Errorf("%s is left", dir)
			}
		}
	})
	return r
}

// joined are the directories that a process joins. A new v1 cpuset is empty and takes nobody.
func (r *realGroup) joined() []string {
	if r.version == V2 {
		return r.dirs()
	}
	var dirs []string
	for _, name := range []string{"memory", "pids", "cpu", "cpuacct", "freezer"} {
		if dir := r.dir(name); r.mounts.v1[name] != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (r *realGroup) mkdir(below string) {
	r.t.Helper()
	for _, dir := range r.joined() {
		if err := os.MkdirAll(filepath.Join(dir, below), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
}

// start runs a shell script in the group (or one below it). The script waits for its first line until it has joined.
func (r *realGroup) start(below, script string) *exec.Cmd {
	r.t.Helper()
	cmd := exec.Command("sh", "-c", "read go; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = r.Kill(context.Background()) // a frozen one dies only after a thaw
		_ = cmd.Wait()
	})
	for _, dir := range r.joined() {
		if err := writeFile(filepath.Join(dir, below, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid)); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		r.t.Fatal(err)
	}
	return cmd
}

// until waits for what another process brings about.
func (r *realGroup) until(what string, done func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(testWait); !done(); {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s did not happen", what)
		}
		_ = pause(context.Background(), time.Millisecond)
	}
}

func (r *realGroup) cpu() time.Duration {
	r.t.Helper()
	u, err := r.Usage()
	if err != nil {
		r.t.Fatal(err)
	}
	return u.CPU
}

func (r *realGroup) mustFreeze() {
	r.t.Helper()
	if err := r.SetFrozen(true); err != nil {
		r.t.Fatal(err)
	}
	if frozen, err := r.Frozen(); err != nil || !frozen {
		r.t.Fatalf("frozen %v, %v", frozen, err)
	}
}

// spend uses processor time here, so that a process that runs beside would have had some too.
func spend() {
	var before, now unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	for now.Utime.Nano()-before.Utime.Nano() < (20 * time.Millisecond).Nanoseconds() {
		_ = unix.Getrusage(unix.RUSAGE_SELF, &now)
	}
}

func testFreeze(t *testing.T, r *realGroup) {
	r.start("", "while :; do :; done")
	r.until("use of the processor", func() bool { return r.cpu() > time.Millisecond })
	if frozen, err := r.Frozen(); err != nil || frozen {
		t.Errorf("frozen before: %v, %v", frozen, err)
	}
	r.mustFreeze()
	r.mustFreeze() // again is no error
	before := r.cpu()
	spend()
	if after := r.cpu(); after != before {
		t.Errorf("a frozen process used %v", after-before)
	}
	if err := r.SetFrozen(false); err != nil {
		t.Fatal(err)
	}
	r.until("running on after the thaw", func() bool { return r.cpu() > before })
}

func testProcs(t *testing.T, r *realGroup) {
	r.mkdir("below/deeper")
	a := r.start("", "read end")
	b := r.start("below/deeper", "read end")
	want := []int{a.Process.Pid, b.Process.Pid}
	slices.Sort(want)
	pids, err := r.Procs()
	if err != nil || !slices.Equal(pids, want) {
		t.Errorf("%v, want %v, %v", pids, want, err)
	}
	names, err := r.Children()
	if err != nil || !slices.Equal(names, []string{"below"}) {
		t.Errorf("%q, %v", names, err)
	}
}

// mustKill ends the group and sees the process gone by SIGKILL.
func (r *realGroup) mustKill(cmd *exec.Cmd) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testWait)
	defer cancel()
	if err := r.Kill(ctx); err != nil {
		r.t.Fatal(err)
	}
	if pids, err := r.Procs(); err != nil || len(pids) > 0 {
		r.t.Errorf("left: %v, %v", pids, err)
	}
	_ = cmd.Wait()
	if exited := cmd.ProcessState.ExitCode(); exited == shellCannotFork {
		return // Kill forbids forks first, and a shell that is refused one may be quicker than the signal
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		r.t.Errorf("ended with %v", cmd.ProcessState)
	}
}

// shellCannotFork is the status of a shell that could not fork.
const shellCannotFork = 2

func testKillFrozen(_ *testing.T, r *realGroup) {
	cmd := r.start("", "read end")
	r.mustFreeze()
	r.mustKill(cmd)
}

func testKillNested(t *testing.T, r *realGroup) {
	r.mkdir("below")
	cmd := r.start("below", "read end")
	below := OpenGroup(r.version, filepath.Join(r.path, "below"))
	if err := below.SetFrozen(true); err != nil {
		t.Fatal(err)
	}
	r.mustKill(cmd)
}

func testKillForkBomb(t *testing.T, r *realGroup) {
	if err := writeFile(filepath.Join(r.dir("pids"), "pids.max"), "60"); err != nil {
		t.Fatal(err)
	}
	cmd := r.start("", "bomb() { while :; do bomb & done; }; exec 2>/dev/null; bomb")
	r.until("a crowd", func() bool {
		pids, err := r.Procs()
		return err == nil && len(pids) > 20
	})
	r.mustKill(cmd)
}

func testKillContext(t *testing.T, r *realGroup) {
	cmd := r.start("", "read end")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Kill(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.mustKill(cmd)
}

func testOOM(t *testing.T, r *realGroup) {
	const limit = 16 << 20
	file, swap := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	if r.version == V2 {
		file, swap = "memory.max", "memory.swap.max"
	}
	if err := writeFile(filepath.Join(r.dir("memory"), file), strconv.Itoa(limit)); err != nil {
		t.Fatal(err)
	}
	value := strconv.Itoa(limit)
	if r.version == V2 {
		value = "0"
	}
	_ = writeFile(filepath.Join(r.dir("memory"), swap), value) // a kernel without swap accounting has no such file
	cmd := r.start("", "head -c 200000000 /dev/zero | tail -n 1 >/dev/null")
	_ = cmd.Wait()
	u, err := r.Usage() // with the group empty by now
	if err != nil || u.OOMKills < 1 || u.MemoryPeak < limit/2 || u.MemoryPeak > limit {
		t.Errorf("%+v, %v; the process ended with %v", u, err, cmd.ProcessState)
	}
}

func testLimits(t *testing.T, r *realGroup) {
	if n, err := r.MemoryLimit(); err != nil || n != Unlimited {
		t.Errorf("a new group has memory limit %d, %v", n, err)
	}
	if n, err := r.PIDsLimit(); err != nil || n != Unlimited {
		t.Errorf("a new group has pids limit %d, %v", n, err)
	}
	if err := r.SetCPUWeight(200); err != nil {
		t.Error(err)
	}
	if err := probeGroup(OpenGroup(r.version, filepath.Join(r.path, "probe"))); err != nil {
		t.Errorf("the check of doctor: %v", err)
	}
}

func testRemoveBusy(t *testing.T, r *realGroup) {
	cmd := r.start("", "read end")
	if err := r.Remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("removing a busy group: %v", err)
	}
	r.mustKill(cmd)
}

// TestRealPreflight looks at this machine. What concerns no account must be good wherever sandboxes are tested.
func TestRealPreflight(t *testing.T) {
	for _, c := range MachineChecks(os.Getuid(), ".") {
		if !c.OK {
			t.Errorf("%s: %s; mend it: %s", c.Title, c.Cause, c.Fix)
		}
	}
	dir := t.TempDir()
	cutOff := filepath.Join(dir, probePrefix+Owner{BootID: "earlier", PID: os.Getpid(), Start: 1}.String()+"~1", "work", "work")
	if err := errors.Join(os.MkdirAll(cutOff, 0o700), os.Chmod(cutOff, 0)); err != nil {
		t.Fatal(err)
	}
	if err := tryOverlay(os.Getuid(), dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the overlay left %v, %v", left, err)
	}
	if err := tryOverlay(os.Getuid(), "/proc"); err == nil {
		t.Error("an overlay was mounted on proc")
	}
}
