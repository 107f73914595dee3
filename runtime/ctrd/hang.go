package ctrd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// killShims kills the shim processes that a daemon has started for an id, and gives their number. A shim that does not
// answer can only be reached as a process: containerd's API names none. It is told from the shims of other daemons by
// its pid namespace.
func killShims(daemon int, id string) int {
	home, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", daemon))
	if err != nil {
		return 0
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	killed := 0
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !isShim(line, id) {
			continue
		}
		if ns, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || ns != home {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && unix.Kill(pid, unix.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// isShim looks at a command line as containerd starts shims with.
func isShim(line []byte, id string) bool {
	args := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
	if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim-") {
		return false
	}
	for i, a := range args[:len(args)-1] {
		if a == "-id" && args[i+1] == id {
			return true
		}
	}
	return false
}
