//go:build integration

package endtoend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// Groups that are killed and removed from outside take their sandboxes along, and nothing else.
func TestFaultGroupRemoved(t *testing.T) {
	e, base := env(t)
	sc, _ := reach(t, e, partServe, procServing)
	now, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), recovery)
	defer cancel()
	for _, id := range now.Minus(base)[ctrdtest.Cgroups] {
		g := e.Group(id)
		if err := errors.Join(g.Kill(ctx), g.Remove()); err != nil {
			t.Logf("group %s: %v", id, err) // a boot may be putting a process into it
		}
	}
	sc.release()
	sc.settle(report{fault: "control groups removed", stage: procServing, began: began, base: base, gauge: sc.gauge})
}

// A suspended machine: everything stands still for longer than any health check waits, then goes on.
func TestFaultSuspend(t *testing.T) {
	e, base := env(t)
	sc, _ := reach(t, e, partServe, procServing)
	pids := []int{sc.s.cmd.Process.Pid}
	for _, part := range []string{partUpstream, partGuard} {
		pids = append(pids, sc.await(part)...)
	}
	tree, err := e.Tree()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tree {
		pids = append(pids, p.PID)
	}
	t.Cleanup(func() { goOn(pids) })
	if err := signalAll(pids, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(6 * time.Second) // what does not happen meanwhile cannot be waited for
	goOn(pids)
	began := time.Now()
	sc.release()
	sc.settle(report{fault: "suspended for 6 s", stage: procServing, began: began, base: base, gauge: sc.gauge})
}

// A server that may open few files says so to the calls that it has none for, and works when they are fewer.
func TestFaultDescriptors(t *testing.T) {
	e, base := env(t)
	sc := newScene(t, e, "--pool-size", "1", "--pool-max", "64", "--pool-empty", "cold")
	_ = sc.s.in.Close()
	sc.s.wait(0)
	cmd := command(t, e.StateDir, "serve", sc.args...)
	cmd.Args = append([]string{"sh", "-c", `ulimit -n 40; exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	sc.s = start(t, cmd).open()
	for range 16 {
		sc.call("calls at once", "import time\ntime.sleep(1)")
	}
	sc.settle(report{fault: "40 descriptors for 16 calls at once", stage: procServing, began: time.Now(), base: base})
}

// Of a keeper that somebody has stopped, and a server that dies then, nothing is left once another server was there.
func TestFaultKeeperStopped(t *testing.T) {
	e, base := env(t)
	sc := newScene(t, e, "--pool-size", "2")
	sc.s.open()
	sc.awaitFrozen(2)
	pids := append(sc.await(partKeeper), sc.await(partServe)...)
	t.Cleanup(func() { goOn(pids) })
	if err := errors.Join(signalAll(pids[:1], syscall.SIGSTOP), signalAll(pids[1:], syscall.SIGKILL)); err != nil {
		t.Fatal(err)
	}
	sc.settle(report{fault: "stop keeper, then kill thawpool serve", stage: procServing, began: time.Now(), base: base, killed: true})
}

// Of a server that is killed while it makes an image nothing is left, and the next one makes the image.
func TestFaultMakingImage(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "tpf-") //nolint:usetesting // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	e := ctrdtest.OpenEnv(t, filepath.Join(dir, "s"))
	t.Cleanup(func() { e.Stop(t) })
	sc := newScene(t, e, "--pool-size", "1")
	ctrdtest.Await(t, "an image is being made", func() error {
		l, err := e.Count()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(l[ctrdtest.Leases], func(id string) bool { return !strings.HasPrefix(id, "thawpool-") }) {
			return errors.New("no lease of it")
		}
		return nil
	})
	if err := syscall.Kill(sc.s.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	sc.s.wait(-9)
	e.RequireNone(t, ctrdtest.Leaks{})
	if stdout, stderr, status := shell(t, e, "print('made')", "run", "-"); status != 0 || stdout != "made\n" {
		t.Errorf("the next run prints %q, status %d, %s", stdout, status, stderr)
	}
}

// fill takes all that is left of a disk, room and files, also what comes free, until its result is called.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(path, "room"))
	if err != nil {
		t.Fatal(err)
	}
	full := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		defer func() { _ = f.Close() }()
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = io.Copy(f, zeros{}) // ends when the disk does
			for unix.Mknod(filepath.Join(path, strconv.Itoa(i)), unix.S_IFREG|0o600, 0) == nil {
				i++
			}
			select {
			case <-full:
				time.Sleep(time.Millisecond) // until something is free again
			default:
				close(full)
			}
		}
	})
	<-full
	return sync.OnceFunc(func() {
		cancel()
		work.Wait()
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A full disk under the state directory, with FIFOs and containerd's root on it: what is ready still serves, what cannot be
// done is said, memories stay whole, and all works again when there is room.
func TestFaultDiskFull(t *testing.T) {
	disk := ctrdtest.Disk()
	if disk == "" {
		t.Log("only root can mount a small disk: not run")
		return
	}
	e := ctrdtest.OpenEnv(t, filepath.Join(disk, "s"))
	t.Cleanup(func() { e.Stop(t) })
	if out, err := command(t, e.StateDir, "run", "-").CombinedOutput(); err != nil { // makes the image
		t.Fatalf("first run: %v\n%s", err, out)
	}
	base, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	sc := newScene(t, e, "--pool-size", "2")
	sc.s.open()
	sc.warm(2)
	whole := strings.Repeat("m", 20_000)
	sc.must("save_memory('kept', 'm' * 20_000)\nprint('saved')", "saved\n")
	sc.awaitFrozen(2)
	free := fill(t, disk)
	defer free()
	sc.must("print('full')", "full\n") // a sandbox was ready
	res := sc.s.do(sc.id(), "try:\n    save_memory('kept', 'x' * 30_000)\n    print('saved')\nexcept Exception as e:\n    print(type(e).__name__, e)")
	if !strings.Contains(res.Stdout, "no space left on device") {
		t.Errorf("saving on a full disk: %s %q %+v", res.Status, res.Stdout, res.Error)
	}
	for range 5 { // uses up what is ready; boots fail
		res = sc.s.do(sc.id(), "print('again')")
	}
	if res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "no space left on device") {
		t.Errorf("on a full disk: %s %+v", res.Status, res.Error)
	}
	free()
	began := time.Now()
	sc.settle(report{fault: "disk full, then room", stage: procServing, began: began, base: base, gauge: sc.gauge})
	stdout, stderr, status := shell(t, e, "m = load_memory('kept')\nprint(m['value'] if isinstance(m, dict) else m)", "run", "-")
	if got := strings.TrimSpace(stdout); status != 0 || got != whole && got != strings.Repeat("x", 30_000) {
		t.Errorf("the memory is %.50q of %d bytes, status %d, %s", got, len(got), status, stderr)
	}
}

// id is one that no call has had. Its answer is taken by who asked.
func (sc *scene) id() int { sc.ids++; return 100_000 + sc.ids }

// must makes a call that has to print this.
func (sc *scene) must(code, stdout string) {
	sc.t.Helper()
	if res := sc.s.do(sc.id(), code); res.Status != actors.StatusSuccess || res.Stdout != stdout {
		sc.t.Fatalf("%s: %s %q %+v", code, res.Status, res.Stdout, res.Error)
	}
}

// Memories are whole whenever the server that writes them is killed: the old or the new value, never a part.
func TestFaultMemories(t *testing.T) {
	e, base := env(t)
	code := "i = 0\nwhile True:\n    i += 1\n    save_memory('big', str(i % 10) * 300_000)"
	for round := range 3 {
		sc := newScene(t, e, "--pool-size", "1")
		sc.s.open()
		dir := filepath.Join(e.StateDir, "kept")
		before := newest(dir)
		sc.call("saving", code)
		ctrdtest.Await(t, "a memory is written", func() error {
			if !newest(dir).After(before) {
				return errors.New("not yet")
			}
			return nil
		})
		if err := sc.s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		sc.s.wait(-9)
		if err := wholeMemory(t, e); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
	requireClean(t, e, base)
}

// wholeMemory reads the memory that was being written.
func wholeMemory(t *testing.T, e *ctrdtest.Env) error {
	t.Helper()
	stdout, stderr, status := shell(t, e, "m = load_memory('big')\nm = m['value'] if isinstance(m, dict) else m\nprint(len(m), len(set(m)))", "run", "-")
	if status != 0 || stdout != "300000 1\n" {
		return fmt.Errorf("memory is %q, %s", stdout, stderr)
	}
	return nil
}

// newest tells the last change below dir.
func newest(dir string) (at time.Time) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what goes meanwhile is no change to wait for
		}
		if info, err := d.Info(); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
		return nil
	})
	return at
}
