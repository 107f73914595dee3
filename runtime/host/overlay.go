package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// probeName is the argv[0] under which this executable, started again in new namespaces, only tries an overlay mount.
const probeName = "thawpool-overlay-probe"

// probeTimeout bounds the attempt. It is a handful of system calls, but the start of this whole program goes before them,
// which took 5 s in an emulated machine on a busy host.
const probeTimeout = 20 * time.Second

var (
	// errNoUserns: the namespaces themselves could not be made.
	errNoUserns = errors.New("clone with a new user namespace")
	// errSlow: the attempt did not end, so nothing is known.
	errSlow = fmt.Errorf("the attempt did not end within %s", probeTimeout)
)

// This executable itself makes the attempt, so that the same AppArmor profile applies and no other program is needed. An
// init function runs before anything of main can start threads or read arguments.
func init() {
	if len(os.Args) == 2 && os.Args[0] == probeName {
		if err := mountOverlay(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// tryOverlay mounts an overlay with its upper directory in a new directory in dir, as uid, in new user and mount
// namespaces that vanish with the attempt.
func tryOverlay(uid int, dir string) error {
	work, err := probePlace(dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	gid := os.Getegid()
	if uid != os.Geteuid() { // only root asks for another
		if err := os.Chown(work, uid, gid); err != nil {
			return err
		}
	}
	var stderr bytes.Buffer
	cmd := exec.Command("/proc/self/exe", work)
	cmd.Args[0], cmd.Stderr, cmd.Env = probeName, &stderr, []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
		Credential:  &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", errNoUserns, err)
	}
	timer := time.AfterFunc(probeTimeout, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	if !timer.Stop() {
		return errSlow
	}
	return exitError(err, stderr.Bytes())
}

// probePrefix begins the name of an attempt's directory; the owner and a random number follow.
const probePrefix = ".thawpool-probe-"

// probePlace makes a directory for an attempt, and removes those of processes that did not live to do so.
func probePlace(dir string) (string, error) {
	entries, _ := os.ReadDir(dir) // what cannot be seen stays
	for _, e := range entries {
		name, _, ok := strings.Cut(e.Name(), "~")
		text, ours := strings.CutPrefix(name, probePrefix)
		owner, err := ParseOwner(text)
		if ok && ours && err == nil && !owner.Alive() {
			_ = os.RemoveAll(filepath.Join(dir, e.Name())) // the next attempt tries again
		}
	}
	self, err := Self()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(dir, probePrefix+self.String()+"~")
}

// mountOverlay makes the attempt: an overlay as containerd's snapshotter mounts it in a user namespace.
func mountOverlay(work string) error {
	// Nothing of this may show outside, whatever propagation the host's mounts have.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(work, name), 0o700); err != nil {
			return err
		}
	}
	escape := strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace
	options := fmt.Sprintf("userxattr,lowerdir=%s,upperdir=%s,workdir=%s",
		escape(work+"/lower"), escape(work+"/upper"), escape(work+"/work"))
	merged := filepath.Join(work, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	if err := os.WriteFile(filepath.Join(merged, "file"), nil, 0o600); err != nil {
		return fmt.Errorf("write to overlay: %w", err)
	}
	if err := unix.Unmount(merged, 0); err != nil {
		return fmt.Errorf("unmount overlay: %w", err)
	}
	// The overlay leaves a directory of mode 000 in work, which only its owner's capabilities in here may remove.
	return os.RemoveAll(filepath.Join(work, "work"))
}
