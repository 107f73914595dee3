package shim

/*
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// libcontainer starts a container's init as a copy of its own executable with the one argument "init". A copy of this
// shim would spend more time on its own Go packages than on the container, so it is replaced, before any Go code runs,
// by the small init whose path is argv[0] (see holdInit). Pipes and _LIBCONTAINER_* variables pass through.
__attribute__((constructor(101))) static void become_init(int argc, char **argv, char **envp) {
	if (argc != 2 || strcmp(argv[1], "init") != 0 || getenv("_LIBCONTAINER_INITPIPE") == NULL)
		return;
	execve(argv[0], argv, envp);
	fprintf(stderr, "thawpool shim: cannot execute its init %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}
*/
import "C"

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/opencontainers/runc/libcontainer/system"
	"golang.org/x/sys/unix"
)

// holdInit loads thawpool-init into a sealed memory file and makes its path argv[0] of the inits to come: libcontainer
// v1.5.3 gives them os.Args[0] (newParentProcess), and closes every descriptor on the way that is not its own. Sealed,
// because a container's init can be reached by the container through /proc (CVE-2019-5736): nothing can write to it.
func holdInit() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(self), "thawpool-init")
	if found, err := exec.LookPath("thawpool-init"); err == nil && unix.Access(path, unix.X_OK) != nil {
		path = found
	}
	src, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("the shim needs thawpool-init beside it or in PATH: %w", err)
	}
	defer src.Close()
	mem, err := system.ExecutableMemfd("thawpool-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("%w (where the sysctl vm.memfd_noexec is 2, set it to 1)", err)
	}
	defer mem.Close()
	if _, err := io.Copy(mem, src); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(mem.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	// A descriptor open for writing would make the kernel refuse to execute the file: keep a read-only one, for good.
	ro, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", mem.Fd()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	os.Args[0] = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ro)
	// libcontainer hands this on to inits, which do one thing after the other: each further processor costs them a sixth of
	// their start. This process has read it already.
	return os.Setenv("GOMAXPROCS", "1")
}
