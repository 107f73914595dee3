package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/actors/catalog/config"
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

// reads is what a command will read, by the names that root knows.
type reads struct {
	operands []string            // arguments of the command
	options  map[string][]string // the files that an option names, by the option's name
}

// handOver makes what r names readable for the account: operands in their place among args, options by variables, which
// take the place of their flags and hide the config file's values.
//
// A file that the account cannot read is copied, while this process is root, to an unnamed file of the account's, whose
// descriptor stays open; its name becomes /proc/self/fd/N. Reopening root's own file by that path would be refused,
// since the kernel checks the file's mode again. A relative name becomes absolute when the directory changes.
func (a serviceAccount) handOver(args, env []string, r reads, cwdKept bool) (argsNow, envNow []string, err error) {
	argsNow, envNow = slices.Clone(args), env
	for _, name := range r.operands {
		path, err := a.readable(name, cwdKept)
		if err != nil {
			return nil, nil, err
		}
		for i, arg := range slices.Backward(argsNow) { // what stands before may be a command of the same name
			if arg == name {
				argsNow[i] = path
				break
			}
		}
	}
	for name, files := range r.options {
		var paths []string
		for _, file := range a.opened(files) {
			path, err := a.readable(file, cwdKept)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", name, err)
			}
			paths = append(paths, path)
		}
		key := option{name: name}.env() + "="
		envNow = slices.DeleteFunc(envNow, func(entry string) bool { return strings.HasPrefix(entry, key) })
		envNow = append(envNow, key+strings.Join(paths, ","))
		argsNow = withoutFlag(argsNow, name)
	}
	return argsNow, envNow, nil
}

// withoutFlag takes --name and its value out of args.
func withoutFlag(args []string, name string) (kept []string) {
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return append(kept, args[i:]...)
		case args[i] == "--"+name:
			i++
		case !strings.HasPrefix(args[i], "--"+name+"="):
			kept = append(kept, args[i])
		}
	}
	return kept
}

// opened has the files of each directory of definitions that the account cannot look into in its place.
func (a serviceAccount) opened(paths []string) (files []string) {
	for _, path := range paths {
		in, err := config.FilesIn(path)
		if err != nil || len(in) == 0 || host.Readable(path, a.uid) && host.Reachable(path, a.uid) {
			in = []string{path}
		}
		files = append(files, in...)
	}
	return files
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
	fd, err := a.copyOf(name, info)
	if err != nil {
		return "", fmt.Errorf("hand %s over to %s: %w", name, a.name, err)
	}
	return "/proc/self/fd/" + strconv.Itoa(fd), nil
}

// copyOf copies a file into an unnamed one that belongs to the account. The descriptor survives the exec and is the
// copy's only reference.
func (a serviceAccount) copyOf(name string, info fs.FileInfo) (int, error) {
	in, err := os.Open(name)
	if err != nil {
		return -1, err
	}
	defer in.Close()
	fd, err := a.unnamed(name, info)
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
	return fd, errors.Join(err, out.Chmod(0o400), out.Chown(a.uid, a.gid), out.Close())
}

const (
	// inMemory is up to which size a copy is kept in memory. Whatever is parsed whole is smaller; images are not.
	inMemory = 32 << 20
	// memoryName is what the kernel takes of a name.
	memoryName = 249
)

// unnamed makes the file for a copy. One in memory tells config.NameOf the name of the original.
func (a serviceAccount) unnamed(name string, info fs.FileInfo) (int, error) {
	if !info.Mode().IsRegular() || info.Size() > inMemory {
		fd, err := unix.Open(a.home, unix.O_TMPFILE|unix.O_RDWR, 0o400)
		if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, fs.ErrNotExist) {
			return fd, err
		}
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return -1, err
	}
	return unix.MemfdCreate(path[max(0, len(path)-memoryName):], 0)
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
