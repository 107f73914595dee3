// Package ctrdtest runs tests against a real private containerd as an ordinary user, and counts what they leave.
package ctrdtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/host/prepare"
)

// envRoot tells the re-executed test where the module is.
const envRoot = "THAWPOOL_TEST_MODULE"

// envDisk tells it where a file system of its own is mounted.
const envDisk = "THAWPOOL_TEST_DISK"

// diskBytes is its size: room for a state directory with the default image, and little more.
var diskBytes int64

// diskFiles is how many files it has room for: some thousand more than an image has.
const diskFiles = 16_000

// WithDisk has Main mount a file system of so many bytes for tests that fill it up. Only root can do that.
func WithDisk(bytes int64) { diskBytes = bytes }

// Disk is where it is mounted; "" where Main was not started as root.
func Disk() string { return os.Getenv(envDisk) }

// envFiles tells it where copies of the module's files are that it may not be able to reach.
const envFiles = "THAWPOOL_TEST_FILES"

// files of the module that tests read.
var files []string

// WithFiles has Main hand files of the module on, which the account cannot reach in a checkout below /root.
func WithFiles(paths ...string) { files = paths }

// File is where a test finds one of them.
func File(path string) string {
	if dir := os.Getenv(envFiles); dir != "" {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// envBin tells it where the programs are that it can reach.
const envBin = "THAWPOOL_TEST_BIN"

// Main is the body of TestMain. It never returns. A test that is started as root goes on as the service account, which
// is prepared first, so everything runs rootless. The same binary is the daemon's keeper when it is started as such.
//
// cleanups run after the tests, in this process.
func Main(m *testing.M, cleanups ...func() error) {
	if len(os.Args) > 1 && os.Args[1] == "daemon" {
		os.Exit(keep(os.Args[2:]))
	}
	if os.Geteuid() == 0 {
		os.Exit(asAccount())
	}
	if dir := os.Getenv(envRoot); dir == "" {
		if err := locate(); err != nil {
			fmt.Fprintln(os.Stderr, "ctrdtest:", err)
			os.Exit(1)
		}
	}
	status := m.Run()
	for _, f := range cleanups {
		if err := f(); err != nil {
			fmt.Fprintln(os.Stderr, "ctrdtest: clean up:", err)
			status = max(status, 1)
		}
	}
	os.Exit(status)
}

// keep is `thawpool daemon` within a test binary.
func keep(args []string) int {
	var c daemon.Config
	f := flag.NewFlagSet("daemon", flag.ContinueOnError)
	f.StringVar(&c.StateDir, "state-dir", "", "")
	f.StringVar(&c.BinDir, "bin-dir", "", "")
	f.DurationVar(&c.Idle, "idle", 0, "")
	if err := f.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := daemon.Keep(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// locate finds the module and its programs from a package's directory.
func locate() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return errors.Join(os.Setenv(envRoot, d), os.Setenv(envBin, filepath.Join(d, "bin")))
		}
		if d == "/" {
			return fmt.Errorf("no go.mod above %s", dir)
		}
	}
}

// asAccount runs this test binary as the service account and gives its exit status.
func asAccount() int {
	status, err := reexecute()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ctrdtest: run as an ordinary user:", err)
		return 1
	}
	return status
}

func reexecute() (int, error) {
	if err := locate(); err != nil {
		return 0, err
	}
	bin := os.Getenv(envBin)
	p := prepare.New(func(line string) { fmt.Fprintln(os.Stderr, "ctrdtest:", line) })
	if err := p.Run(context.Background(), prepare.Options{Users: []string{host.Account}, BinDir: bin}); err != nil {
		return 0, err
	}
	account, err := host.LookupName(host.Account)
	if err != nil {
		return 0, err
	}
	var uid, gid int
	if _, err := fmt.Sscan(account.Uid+" "+account.Gid, &uid, &gid); err != nil {
		return 0, err
	}
	runc, err := p.Install(filepath.Join(bin, "runc"), uid)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("/var/tmp", "thawpool-test-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	self, err := copySelf(dir, uid, gid)
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o644)
		}
		if err != nil {
			return 0, err
		}
	}
	disk, unmount, err := mountDisk(dir, uid, gid)
	if err != nil {
		return 0, err
	}
	defer unmount()
	cmd := exec.Command(self, reachableFlags(os.Args[1:])...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HOME="+account.HomeDir, "USER="+account.Username, "LOGNAME="+account.Username,
		"TMPDIR="+dir, envBin+"="+filepath.Dir(runc), envRoot+"="+os.Getenv(envRoot),
		envDisk+"="+disk, envFiles+"="+dir)
	if wd, err := os.Getwd(); err != nil || !host.Reachable(filepath.Join(wd, "."), uid) {
		cmd.Dir = dir
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
		Setpgid:    true, Pdeathsig: syscall.SIGKILL,
	}
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() > 0 {
			return exit.ExitCode(), nil
		}
		return 0, err
	}
	return 0, nil
}

// mountDisk mounts the file system for tests in a mount namespace of this thread, which the test inherits; it goes with the
// last of them.
func mountDisk(dir string, uid, gid int) (path string, unmount func(), err error) {
	if diskBytes == 0 {
		return "", func() {}, nil
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return "", nil, fmt.Errorf("mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", nil, fmt.Errorf("private mounts: %w", err)
	}
	path = filepath.Join(dir, "disk")
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", nil, err
	}
	options := fmt.Sprintf("size=%d,nr_inodes=%d,mode=700,uid=%d,gid=%d", diskBytes, diskFiles, uid, gid)
	if err := unix.Mount("thawpool-test", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return "", nil, fmt.Errorf("mount a small file system: %w", err)
	}
	return path, func() { _ = unix.Unmount(path, unix.MNT_DETACH) }, nil
}

// copySelf lays the test binary where the account can start it, and gives the directory to the account.
func copySelf(dir string, uid, gid int) (string, error) {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }()
	path := filepath.Join(dir, "test")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	return path, errors.Join(err, to.Close(), os.Chown(dir, uid, gid))
}

// reachableFlags drops flags that name files of go test's own, where the account cannot write.
func reachableFlags(args []string) []string {
	var kept []string
	for _, a := range args {
		if strings.HasPrefix(a, "-test.testlogfile=") || strings.HasPrefix(a, "-test.gocoverdir=") || strings.HasPrefix(a, "-test.coverprofile=") {
			continue
		}
		kept = append(kept, a)
	}
	return kept
}

// Patience bounds what a test waits for that takes milliseconds when all is well.
const Patience = 60 * time.Second

// Await polls until check succeeds, and fails the test with its last error after Patience.
func Await(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := await(what, check); err != nil {
		t.Fatal(err)
	}
}

func await(what string, check func() error) error {
	deadline := time.Now().Add(Patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: still not after %v: %w", what, Patience, err)
		}
		time.Sleep(wait) // between two looks; the look decides
	}
}
