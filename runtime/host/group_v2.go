package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
)

// eventSlice is how long one wait for a change of cgroup.events lasts before the caller's context is looked at again.
const eventSlice = 50 * time.Millisecond

func (g Group) usageV2() (runtime.Usage, error) {
	dir := g.dir("")
	cpu, err := readKeyed(filepath.Join(dir, "cpu.stat"), "usage_usec")
	if err != nil {
		return runtime.Usage{}, fmt.Errorf("read cpu use: %w", err)
	}
	peak, err := readInt(filepath.Join(dir, "memory.peak"))
	if errors.Is(err, fs.ErrNotExist) { // Linux before 5.19
		peak, err = readInt(filepath.Join(dir, "memory.current"))
	}
	if err != nil {
		return runtime.Usage{}, fmt.Errorf("read memory use: %w", err)
	}
	kills, err := readKeyed(filepath.Join(dir, "memory.events"), "oom_kill")
	if err != nil {
		return runtime.Usage{}, fmt.Errorf("read oom kills: %w", err)
	}
	return runtime.Usage{CPU: time.Duration(cpu) * time.Microsecond, MemoryPeak: peak, OOMKills: kills}, nil
}

func (g Group) frozenV2() (bool, error) {
	n, err := readKeyed(filepath.Join(g.dir(""), "cgroup.events"), "frozen")
	if err != nil {
		return false, fmt.Errorf("read freezer state: %w", err)
	}
	return n == 1, nil
}

func (g Group) setFrozenV2(frozen bool) error {
	file := filepath.Join(g.dir(""), "cgroup.freeze")
	if !frozen {
		return writeFile(file, "0")
	}
	if err := writeFile(file, "1"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), freezeWait)
	defer cancel()
	if err := g.waitEvent(ctx, "frozen", 1); err != nil {
		return errors.Join(err, writeFile(file, "0")) // never leave a group half frozen
	}
	return nil
}

// killV2 uses cgroup.kill, which also takes frozen processes and those that are just being forked. Kernels before 5.14
// have no such file.
func (g Group) killV2(ctx context.Context) error {
	dir := g.dir("")
	err := writeFile(filepath.Join(dir, "cgroup.kill"), "1")
	if errors.Is(err, fs.ErrNotExist) {
		return g.killBySignal(ctx)
	}
	if err == nil {
		err = g.waitEvent(ctx, "populated", 0)
	}
	if gone(err) {
		return nil
	}
	return err
}

// waitEvent waits until a key of cgroup.events has the value wanted. The kernel marks a change of that file with
// POLLPRI, so the wait ends with the change.
func (g Group) waitEvent(ctx context.Context, key string, want int64) error {
	path := filepath.Join(g.dir(""), "cgroup.events")
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		// Read through the polled descriptor first: the kernel compares with what this descriptor saw last.
		n, err := keyedAt(f, key)
		if err != nil || n == want {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("waiting for %s %d: %w", key, want, err)
		}
		fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(fds, int(eventSlice.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for %s: %w", path, err)
		}
	}
}
