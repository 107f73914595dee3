package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/host"
)

const (
	// bootPatience is how long a new containerd may take until it serves. That is 0.3 s on an idle machine, and half a
	// minute on an emulated one that is busy too. One that fails says so by ending.
	bootPatience = 60 * time.Second
	// stuckEvery is how often a start is looked at that takes longer than it should.
	stuckEvery = time.Second
	// killPatience bounds the end of the daemon and its sandboxes.
	killPatience = 10 * time.Second
)

// Temp is containerd's directory for temporary files and that of what it starts, all of which may enter it: runsc gives
// up root before it uses it. Nobody but the owner could below the state directory.
const Temp = "/run/thawpool-tmp"

// entry is what rootlesskit runs inside its namespaces: it puts the state directory at its neutral path and becomes
// containerd. /run is a copy, whose link to the system's containerd must go. What containerd and its shims write for each
// task they sync to disk, for nothing: it lives in memory, as on a system where that is /run. So containerd finds no task of
// the daemon before it, whose working directories it would remove with them: they go here. The umask is not the caller's,
// since containerd makes the roots of sandboxes by it, which their unprivileged user must be able to enter.
const entry = `set -e
umask 022
mkdir -p ` + Inside + `
mkdir -p -m 1777 ` + Temp + `
mount --bind "$1" ` + Inside + `
rm -f /run/containerd
cd ` + Inside + `
rm -rf state run/s root/io.containerd.runtime.v2.task root/io.containerd.sandbox.controller.v1.shim
mkdir state
mount -t tmpfs -o mode=0711,nosuid,nodev thawpool state
if [ "$3" = wipe ]; then
  [ ! -d root ] || [ -e root.damaged ] || mv root root.damaged
  rm -rf root
fi
exec "$2" --config ` + Inside + `/containerd.toml`

// box is rootlesskit with all that runs in its namespaces. It ends as a whole.
type box struct {
	layout layout
	place  place
	cmd    *exec.Cmd
	exited chan struct{} // rootlesskit's own process has gone; the rest may still be ending
	words  *words
	proc   *process // containerd, once it serves
}

// openBox starts a daemon and waits until it serves. wipe sets aside what containerd has stored, once. On an error nothing runs.
func openBox(ctx context.Context, c Config, l layout, p place, log io.Writer, wipe bool) (*box, error) {
	b := &box{layout: l, place: p, exited: make(chan struct{}), words: &words{}}
	config, err := containerdConfig()
	if err == nil {
		err = os.WriteFile(l.path("containerd.toml"), config, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("write containerd's configuration: %w", err)
	}
	if err := b.start(c, io.MultiWriter(log, b.words), wipe); err != nil {
		return nil, fmt.Errorf("start rootlesskit: %w", err)
	}
	if err := b.awaitServing(ctx); err != nil {
		return nil, errors.Join(err, b.close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

func (b *box) start(c Config, log io.Writer, wipe bool) error {
	rk := b.layout.rootlesskit()
	if err := os.MkdirAll(rk, 0o700); err != nil {
		return err
	}
	args := []string{"--state-dir=" + rk, "--net=none", "--pidns", "--copy-up=/etc", "--copy-up=/run"}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if b.place.version == host.V2 {
		args = append(args, "--cgroupns", "--evacuate-cgroup2=containerd")
		dir, err := groupDir(b.place.dir)
		if err != nil {
			return err
		}
		defer func() { _ = dir.Close() }()
		attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	}
	args = append(args, "sh", "-c", entry, "sh", b.layout.dir, filepath.Join(c.BinDir, "containerd"), wipeWord(wipe))
	b.cmd = exec.Command(filepath.Join(c.BinDir, "rootlesskit"), args...)
	// containerd finds shims by PATH; the ones that belong to it come first.
	b.cmd.Env = append(slices.DeleteFunc(keeperEnv(), func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }),
		"PATH="+c.BinDir+string(filepath.ListSeparator)+searchPath())
	b.cmd.Dir = "/"
	b.cmd.SysProcAttr = attr
	b.cmd.Stdout, b.cmd.Stderr = log, log
	b.cmd.WaitDelay = time.Second // for the log of children that outlive rootlesskit
	started := make(chan error)
	go func() {
		// Pdeathsig goes by the thread that started the child, so this one stays for the child's life.
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		err := b.cmd.Start()
		started <- err
		if err == nil {
			_ = b.cmd.Wait() // how it ended shows in the log
			close(b.exited)
		}
	}()
	return <-started
}

// groupDir makes the v2 group that the daemon starts in.
func groupDir(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return os.Open(dir)
}

func wipeWord(wipe bool) string {
	if wipe {
		return "wipe"
	}
	return "keep"
}

func (b *box) awaitServing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootPatience)
	defer cancel()
	look := time.NewTicker(stuckEvery)
	defer look.Stop()
	stuck := 0
	for wait := shortestPoll; ; wait = longer(wait) {
		p, err := probe(ctx, b.layout.socket(), bootPatience)
		if err == nil {
			b.proc = p
			return nil
		}
		select {
		case <-time.After(wait):
		case <-look.C:
			if stuck++; !b.isStuck() {
				stuck = 0
			}
			if stuck == 2 {
				return fmt.Errorf("containerd did not start: a part of it was killed or stopped: %s", b.words)
			}
		case <-b.exited:
			return fmt.Errorf("containerd did not start: %s", b.words)
		case <-ctx.Done():
			return fmt.Errorf("containerd does not serve: %w: %s", err, b.words)
		}
	}
}

// isStuck tells whether nothing can come of a start: rootlesskit's child has gone, which it does not always see, or one of
// its processes was stopped.
func (b *box) isStuck() bool {
	pids := []int{b.cmd.Process.Pid}
	for i := 0; i < len(pids); i++ {
		more, known := children(pids[i])
		if !known {
			return false
		}
		pids = append(pids, more...)
	}
	return len(pids) == 1 || slices.ContainsFunc(pids, host.Stopped)
}

// children are the living processes that a process has started, where the kernel tells.
func children(pid int) (pids []int, known bool) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		return nil, false
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil && !host.Zombie(child) {
				pids = append(pids, child)
			}
		}
	}
	return pids, true
}

// lost is closed when containerd has ended, whatever the rest does: rootlesskit itself waits for every process of its
// pid namespace, and a frozen one does not end on cgroup v1.
func (b *box) lost() <-chan struct{} {
	lost := make(chan struct{})
	go func() { // ends with containerd, or with close
		_ = b.proc.wait()
		close(lost)
	}()
	return lost
}

// close ends the daemon and every sandbox, frozen ones too, and removes their groups.
func (b *box) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	// Killing rootlesskit kills the first process of its pid namespace and so all others, except frozen ones on v1.
	_ = unix.Kill(b.cmd.Process.Pid, unix.SIGKILL)
	select {
	case <-b.exited:
	case <-ctx.Done():
		return fmt.Errorf("rootlesskit does not end: %w", ctx.Err())
	}
	err := clear(ctx, b.layout, b.place)
	if b.proc != nil {
		b.proc.close()
	}
	return err
}

// clear ends and removes whatever a daemon at this place has left, this keeper's or an earlier one's.
func clear(ctx context.Context, l layout, p place) error {
	var errs []error
	// A rootlesskit that was orphaned in the short time before it asks to die with its parent.
	if err := killByArgument(ctx, "--state-dir="+l.rootlesskit()); err != nil {
		errs = append(errs, err)
	}
	group := host.OpenGroup(p.version, p.all)
	if err := group.Kill(ctx); err != nil {
		errs = append(errs, fmt.Errorf("kill what is left in %s: %w", p.all, err))
	}
	if err := group.Remove(); err != nil {
		errs = append(errs, err)
	}
	for _, path := range []string{l.rootlesskit(), l.path("fifo"), l.path("run")} {
		errs = append(errs, os.RemoveAll(path))
	}
	if _, err := os.Lstat(l.path("users")); err == nil { // else the state directory was removed, and stays so
		for _, path := range []string{l.path("fifo"), l.path("run")} {
			errs = append(errs, os.MkdirAll(path, 0o700))
		}
	}
	return errors.Join(errs...)
}

// killByArgument ends every process of this user that has an argument, and waits for its end. Zombies have none.
func killByArgument(ctx context.Context, arg string) error {
	want := append([]byte(arg), 0)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		pids, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			return err
		}
		found := 0
		for _, dir := range pids {
			line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
			if err != nil || !bytes.Contains(line, want) {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil || pid == os.Getpid() {
				continue
			}
			switch err := unix.Kill(pid, unix.SIGKILL); {
			case errors.Is(err, unix.EPERM), errors.Is(err, unix.ESRCH): // another user's, or gone
			case err != nil:
				return err
			default:
				found++
			}
		}
		if found == 0 {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fmt.Errorf("%d processes with %s do not end: %w", found, arg, ctx.Err())
		}
	}
}

// words keeps the end of what a daemon says.
type words struct {
	mu   sync.Mutex
	text []byte
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	if len(w.text) > 2*maxTail {
		w.text = slices.Clone(w.text[len(w.text)-maxTail:])
	}
	return len(p), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return (&tail{text: string(w.text)}).String()
}
