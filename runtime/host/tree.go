package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// gone tells whether err means that the group has been removed: opening its files gives ENOENT, and using one that was
// open already gives ENODEV.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}

// procsBelow lists the processes of dir and all below it; what is gone holds none.
func procsBelow(dir string) ([]int, error) {
	var pids []int
	for _, d := range tree(dir) {
		data, err := os.ReadFile(filepath.Join(d, "cgroup.procs"))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 { // 0 is a process outside our pid namespace
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// tree is dir and every directory below it, parents first; empty when dir does not exist.
func tree(dir string) []string {
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	all := []string{dir}
	names, _ := subdirs(dir) // one that cannot be listed shows when it is used
	for _, name := range names {
		all = append(all, tree(filepath.Join(dir, name))...)
	}
	return all
}

// subdirs are the names of the directories in dir, none when dir is gone.
func subdirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if gone(err) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// removeTree removes the directories of dir from the leaves up, waiting until the deadline for dying processes.
func removeTree(dir string, deadline time.Time) error {
	for _, d := range slices.Backward(tree(dir)) {
		for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
			err := unix.Rmdir(d)
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
				return &os.PathError{Op: "rmdir", Path: d, Err: err}
			}
			_ = pause(context.Background(), wait)
		}
	}
	return nil
}
