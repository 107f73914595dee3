package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/host/prepare"
)

// keptEnv are the variables that go over to the service account, besides those with a prefix of keptEnvPrefixes. The
// rest of root's environment may hold secrets and paths that mean nothing to it.
var keptEnv = []string{
	"TERM", "LANG", "TZ", "PATH", "NO_COLOR", "COLUMNS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", // image pull
}

var keptEnvPrefixes = []string{"THAWPOOL_", "MCP_", "LC_", "OTEL_"}

// safePath is PATH where root has none.
const safePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// serviceAccount is the account that runs sandboxes for root.
type serviceAccount struct {
	uid, gid   int
	name, home string
}

// dropToAccount makes a thawpool that was started by root go on as the service account; for everybody else it does
// nothing. It prepares the machine where needed, with a line on stderr for each change, makes the programs reachable,
// and replaces this process by the same command run as the account, with stdin, stdout and stderr as they are. It only
// returns when it had nothing to do, or with an error.
//
// args is the command line without the program (os.Args[1:]). What r names is handed over so that the account can read
// it, also when only root can, or when it is relative to a directory that the account cannot enter.
func dropToAccount(args []string, r reads) error {
	if !realRoot() {
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	p := prepare.New(func(line string) { fmt.Fprintln(os.Stderr, "thawpool: "+line) })
	users := []string{host.Account}
	if err := p.Run(context.Background(), prepare.Options{Users: users, BinDir: filepath.Dir(exe)}); err != nil {
		return err
	}
	a, err := findAccount()
	if err != nil {
		return err
	}
	start, err := p.Install(exe, a.uid)
	if err != nil {
		return fmt.Errorf("install the programs for %s: %w", a.name, err)
	}
	return a.become(start, args, r)
}

// realRoot tells whether this is root of the machine, and not of a user namespace.
func realRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	data, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(data))
	// The initial namespace maps all ids to themselves. Without /proc nothing else here works either.
	return err == nil && slices.Equal(f, []string{"0", "0", "4294967295"})
}

func findAccount() (serviceAccount, error) {
	u, err := host.LookupName(host.Account)
	if err != nil {
		return serviceAccount{}, err
	}
	uid, uerr := strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	if err := errors.Join(uerr, gerr); err != nil {
		return serviceAccount{}, fmt.Errorf("ids of %s: %w", u.Username, err)
	}
	if uid == 0 || gid == 0 {
		return serviceAccount{}, fmt.Errorf("the account %s has uid %d and gid %d: it must not be root", u.Username, uid, gid)
	}
	return serviceAccount{uid: uid, gid: gid, name: u.Username, home: u.HomeDir}, nil
}

// become replaces this process by exe run as the account with the arguments args. On success it does not return.
func (a serviceAccount) become(exe string, args []string, r reads) error {
	cwd, err := a.enterableCwd()
	if err != nil {
		return err
	}
	args, env, err := a.handOver(args, a.environ(os.Environ()), r, cwd.kept)
	if err != nil {
		return err
	}
	if err := os.Chdir(cwd.dir); err != nil {
		return fmt.Errorf("enter the home of %s: %w", a.name, err)
	}
	// The order matters: once the user is not root, nothing else can be changed.
	if err := syscall.Setgroups([]int{a.gid}); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := syscall.Setresgid(a.gid, a.gid, a.gid); err != nil {
		return fmt.Errorf("drop group: %w", err)
	}
	if err := syscall.Setresuid(a.uid, a.uid, a.uid); err != nil {
		return fmt.Errorf("drop user: %w", err)
	}
	return fmt.Errorf("start %s as %s: %w", exe, a.name, syscall.Exec(exe, append([]string{exe}, args...), env))
}

// environ is the account's environment, made from root's.
func (a serviceAccount) environ(root []string) []string {
	env := []string{"HOME=" + a.home, "USER=" + a.name, "LOGNAME=" + a.name}
	path := false
	for _, entry := range root {
		key, _, _ := strings.Cut(entry, "=")
		keep := slices.Contains(keptEnv, key) ||
			slices.ContainsFunc(keptEnvPrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
		if keep {
			env = append(env, entry)
			path = path || key == "PATH"
		}
	}
	if !path {
		env = append(env, "PATH="+safePath)
	}
	runtimeDir := fmt.Sprintf("/run/user/%d", a.uid)
	if info, err := os.Stat(runtimeDir); err == nil && info.IsDir() {
		env = append(env, "XDG_RUNTIME_DIR="+runtimeDir)
	}
	return env
}
