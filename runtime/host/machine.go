package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Account is the service account that thawpool runs as when it is started by root.
const Account = "thawpool"

// machine is what the checks look at: the real one, or in tests a directory that looks like one.
type machine struct {
	root   string                            // prefix of every path, "" for the real machine
	self   string                            // this executable, for the commands that are suggested
	euid   int                               // who looks
	lookup func(uid int) (*user.User, error) // the password database
	try    func(uid int, dir string) error   // mounts an overlay in a new user namespace, working in dir
	probe  func(g Group) error               // limits and freezes an empty group
}

var realHost = machine{
	self:   ownPath(),
	euid:   os.Geteuid(),
	lookup: LookupUser,
	try:    tryOverlay,
	probe:  probeGroup,
}

// ownPath is this executable's path, or its bare name when every sudo finds it; Red Hat's does not look in /usr/local.
func ownPath() string {
	exe, err := os.Executable()
	if err != nil {
		return "thawpool"
	}
	switch filepath.Dir(exe) {
	case "/usr/sbin", "/usr/bin", "/sbin", "/bin":
		return filepath.Base(exe)
	}
	return exe
}

// path is p on this machine.
func (h machine) path(p string) string { return filepath.Join(h.root, p) }

// read is the trimmed text of a small file, "" when it is not there.
func (h machine) read(p string) string {
	data, _ := os.ReadFile(h.path(p)) // absence is what the callers ask about
	return strings.TrimSpace(string(data))
}

// name is uid's account name, or its number where no password database knows it.
func (h machine) name(uid int) string {
	if u, err := h.lookup(uid); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// setupCommand is the one root command that prepares this machine for uid.
func (h machine) setupCommand(uid int) string {
	command := "sudo " + h.self + " setup"
	if name := h.name(uid); name != Account && name != "root" { // root's sandboxes run as the service account
		command += " --user " + name
	}
	return command
}

// SetupCommand is the one root command that prepares this machine for uid.
func SetupCommand(uid int) string { return realHost.setupCommand(uid) }

// LookupUser finds an account by number in every password database of the machine. This binary may be built without
// cgo, where os/user reads only /etc/passwd; getent also asks LDAP, NIS and their like.
func LookupUser(uid int) (*user.User, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err == nil {
		return u, nil
	}
	if found := getent(strconv.Itoa(uid)); found != nil && found.Uid == strconv.Itoa(uid) {
		return found, nil
	}
	return nil, err
}

// LookupName finds an account by name, or by its number in digits, in every password database of the machine.
func LookupName(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if err == nil {
		return u, nil
	}
	if uid, nerr := strconv.Atoi(name); nerr == nil {
		return LookupUser(uid)
	}
	if found := getent(name); found != nil && found.Username == name {
		return found, nil
	}
	return nil, err
}

// getentWait bounds a question to a directory server that may be down.
const getentWait = 2 * time.Second

func getent(key string) *user.User {
	ctx, cancel := context.WithTimeout(context.Background(), getentWait)
	defer cancel()
	out, err := exec.CommandContext(ctx, "getent", "passwd", key).Output()
	if err != nil {
		return nil
	}
	f := strings.Split(strings.TrimSpace(string(out)), ":")
	if len(f) < 7 {
		return nil
	}
	return &user.User{Username: f[0], Uid: f[2], Gid: f[3], Name: f[4], HomeDir: f[5]}
}

// packages are the commands that install newuidmap and newgidmap, by the ID or ID_LIKE of /etc/os-release.
var packages = map[string]string{
	"debian": "sudo apt-get install -y uidmap",
	"fedora": "sudo dnf install -y shadow-utils",
	"rhel":   "sudo dnf install -y shadow-utils",
	"suse":   "sudo zypper install -y shadow",
	"arch":   "sudo pacman -S --noconfirm shadow",
	"alpine": "sudo apk add shadow-uidmap",
}

// distro are the names of this distribution and of those it is like, its own first.
func (h machine) distro() []string {
	var id, like string
	for line := range strings.Lines(cmp.Or(h.read("/etc/os-release"), h.read("/usr/lib/os-release"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.Trim(value, `"'`); key {
		case "ID":
			id = value
		case "ID_LIKE":
			like = value
		}
	}
	return append([]string{id}, strings.Fields(like)...)
}

// installIDMap is the command that installs newuidmap and newgidmap here.
func (h machine) installIDMap() string {
	for _, name := range h.distro() {
		if command := packages[name]; command != "" {
			return command
		}
	}
	return "install the package that holds newuidmap and newgidmap (part of shadow-utils)"
}

// IDMapPackageCommand is the command that installs newuidmap and newgidmap on this distribution.
func IDMapPackageCommand() string { return realHost.installIDMap() }

// exitError tells how another program ended, with the end of what it said.
func exitError(err error, output []byte) error {
	text := strings.TrimSpace(string(output[max(0, len(output)-500):]))
	if err == nil || text == "" {
		return err
	}
	return errors.Join(fmt.Errorf("%s", text), err)
}
