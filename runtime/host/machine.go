package host

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
)

// machine is what the checks look at: the real one, or a directory that looks like one in tests.
type machine struct {
	root     string                            // prefix of every path, "" for the real machine
	self     string                            // this executable, for the commands that are suggested
	lookup   func(uid int) (*user.User, error) // the password database
	lookPath func(name string) (string, error) // newuidmap and its like
	overlay  func() error                      // tries an overlay mount in a user namespace
	seccomp  func() error                      // asks the kernel for seccomp filters
}

var realHost = machine{
	self:     ownPath(),
	lookup:   func(uid int) (*user.User, error) { return user.LookupId(strconv.Itoa(uid)) },
	lookPath: exec.LookPath,
	overlay:  nil,
	seccomp:  nil,
}

// ownPath is this executable's path, or its bare name when the shell of root would find it anyway.
func ownPath() string {
	exe, err := os.Executable()
	if err != nil {
		return "thawpool"
	}
	switch filepath.Dir(exe) {
	case "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin":
		return filepath.Base(exe)
	}
	return exe
}

// path is p on this machine.
func (h machine) path(p string) string { return filepath.Join(h.root, p) }

// name is uid's account name, or its number where the password database does not know it.
func (h machine) name(uid int) string {
	if u, err := h.lookup(uid); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// setupCommand is the one root command that prepares this machine for uid.
func (h machine) setupCommand(uid int) string {
	command := "sudo " + h.self + " setup"
	if name := h.name(uid); name != Account {
		command += " --user " + name
	}
	return command
}

// SetupCommand is the one root command that prepares this machine for uid.
func SetupCommand(uid int) string { return realHost.setupCommand(uid) }
