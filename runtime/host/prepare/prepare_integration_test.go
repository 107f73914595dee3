//go:build integration

package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/runtime/host"
)

// TestRealAccount makes an account of its own on this machine as setup makes the service account, lets a frozen process
// of it stay behind, and takes everything back. Only root can; everybody else is refused before anything is touched.
func TestRealAccount(t *testing.T) {
	name := "tp-test-" + strconv.Itoa(os.Getpid()%100000)
	home := filepath.Join("/var/lib", name)
	var said []string
	p := New(func(line string) { said = append(said, line) })
	p.service = serviceAccount{name: name, home: home, fullName: "thawpool test"}
	ctx := context.Background()
	undo := func() error { return p.Undo(ctx, []string{name}) }
	if os.Geteuid() != 0 {
		if err := p.Run(ctx, Options{Users: []string{name}}); !errors.Is(err, ErrNotRoot) {
			t.Errorf("as an ordinary user: %v", err)
		}
		if err := undo(); !errors.Is(err, ErrNotRoot) {
			t.Errorf("as an ordinary user: %v", err)
		}
		return
	}
	t.Cleanup(func() {
		if err := undo(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Run(ctx, Options{Users: []string{name}}); err != nil {
		t.Fatal(err)
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid := uidOf(u)
	if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("home: %v, %v", info, err)
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		if n := host.SubIDCount(file, name, uid); n != host.MinSubIDs {
			t.Errorf("%s gives %d", file, n)
		}
	}
	base, err := host.Delegated(uid)
	if err != nil {
		t.Fatal(err)
	}
	made := len(said)
	if err := p.Run(ctx, Options{Users: []string{name}}); err != nil || len(said) != made {
		t.Errorf("again: %v, said %q", err, said[made:])
	}

	left := leaveFrozen(t, u, base)
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }() // userdel refuses while the account has a process, even one that nobody reaped
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process that was left has ended by itself")
	}
	checkGone(t, name, home, uid)
}

// leaveFrozen starts a process as the account and, on v1, freezes it in a group of the account's own.
func leaveFrozen(t *testing.T, u *user.User, base string) *exec.Cmd {
	t.Helper()
	uid, gid, err := ids(u)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h, err := host.ReadHierarchies("")
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != host.V1 {
		return cmd
	}
	dir := filepath.Join(h.V1["freezer"], base, "box")
	err = errors.Join(os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644),
		h.Group(base+"/box").SetFrozen(true))
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

func checkGone(t *testing.T, name, home string, uid int) {
	t.Helper()
	if _, err := user.Lookup(name); err == nil {
		t.Error("the account is left")
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("the home is left")
	}
	if dirs, _ := filepath.Glob("/sys/fs/cgroup/*" + host.GroupBase(uid)); len(dirs) > 0 {
		t.Errorf("groups are left: %q", dirs)
	}
	for _, file := range []string{"/etc/subuid", "/etc/subgid", recordFile} {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(data), name) {
			err = fmt.Errorf("%s still names %s", file, name)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}
