package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/host"
)

// workingDir is where the account goes on: root's own directory where it may enter that.
type workingDir struct {
	dir  string
	kept bool // relative paths keep their meaning
}

func (a serviceAccount) enterableCwd() (workingDir, error) {
	cwd, err := os.Getwd()
	if err == nil && host.Reachable(cwd, a.uid) {
		return workingDir{cwd, true}, nil
	}
	if !host.Reachable(a.home, a.uid) {
		return workingDir{}, fmt.Errorf("the home %s of %s cannot be entered by it", a.home, a.name)
	}
	return workingDir{a.home, false}, nil
}

// handOver makes the files that args and env name readable for the account, in place. In args those in files are meant:
// as a whole argument, or as the value of a "--flag=value". In env it is every kept variable whose whole value is the
// path of a regular file that the account cannot read.
//
// A file that the account cannot read is copied, while this process is root, to an unnamed file of the account's, whose
// descriptor stays open; the argument becomes /proc/self/fd/N. Reopening root's own file by that path would be refused,
// since the kernel checks the file's mode again. A relative name becomes absolute when the directory changes.
func (a serviceAccount) handOver(args, env, files []string, cwdKept bool) error {
	// What else root had open is not the account's business.
	if err := closeOthersOnExec(); err != nil {
		return err
	}
	for _, name := range files {
		path, err := a.readable(name, cwdKept)
		if err != nil {
			return err
		}
		for i, arg := range args {
			flag, value, isFlag := strings.Cut(arg, "=")
			switch {
			case arg == name:
				args[i] = path
			case isFlag && strings.HasPrefix(arg, "-") && value == name:
				args[i] = flag + "=" + path
			}
		}
	}
	for i, entry := range env {
		key, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(key, "THAWPOOL_") && !strings.HasPrefix(key, "MCP_") {
			continue
		}
		if info, err := os.Stat(value); err != nil || !info.Mode().IsRegular() {
			continue
		}
		path, err := a.readable(value, cwdKept)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		env[i] = key + "=" + path
	}
	return nil
}

// readable is a path at which the account can read what root reads at name. A name that is neither a regular file nor a
// pipe (as the shell's <(command) is), "-" among them, stays as it is: the command has its own words for that.
func (a serviceAccount) readable(name string, cwdKept bool) (string, error) {
	info, err := os.Stat(name)
	if err != nil || info.Mode().Type()&^fs.ModeNamedPipe != 0 {
		return name, nil
	}
	if host.Readable(name, a.uid) {
		if cwdKept {
			return name, nil
		}
		return filepath.Abs(name)
	}
	fd, err := a.copyOf(name)
	if err != nil {
		return "", fmt.Errorf("hand %s over to %s: %w", name, a.name, err)
	}
	return "/proc/self/fd/" + strconv.Itoa(fd), nil
}

// copyOf copies a file into an unnamed one that belongs to the account. The descriptor survives the exec and is the
// copy's only reference.
func (a serviceAccount) copyOf(name string) (int, error) {
	in, err := os.Open(name)
	if err != nil {
		return -1, err
	}
	defer in.Close()
	fd, err := unix.Open(a.home, unix.O_TMPFILE|unix.O_RDWR, 0o400)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, fs.ErrNotExist) {
		fd, err = unix.MemfdCreate(filepath.Base(name), 0)
	}
	if err != nil {
		return -1, err
	}
	// The os.File works on a duplicate, so that closing it leaves fd.
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, err
	}
	out := os.NewFile(uintptr(dup), name)
	_, err = io.Copy(out, in)
	if err == nil {
		_, err = out.Seek(0, io.SeekStart)
	}
	return fd, errors.Join(err, out.Chown(a.uid, a.gid), out.Close())
}

// closeOthersOnExec marks every open descriptor but stdin, stdout and stderr to be closed by the exec.
func closeOthersOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list open files: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
