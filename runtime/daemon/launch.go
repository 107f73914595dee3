package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// launch is a keeper that this process has started.
type launch struct {
	hasEnded func() bool
	out      *tail
}

// lastWords is the end of what it wrote, for an error.
func (s *launch) lastWords() string { return s.out.String() }

// startKeeper starts a keeper that outlives this process. With cgroup v2 it must be a unit of the user's systemd, which
// delegates a group to it; with v1 the groups that `thawpool setup` made are enough.
func startKeeper(ctx context.Context, c Config, l layout) (*launch, error) {
	uid := os.Geteuid()
	if _, err := host.Delegated(uid); err != nil {
		return nil, err
	}
	v, err := host.CgroupVersion()
	if err != nil {
		return nil, err
	}
	argv := append(append([]string{}, c.Command...), c.Args()...)
	if v == host.V2 {
		return launchUnit(ctx, argv, l, uid)
	}
	return launchDirect(argv, l)
}

// launchDirect starts the keeper in a session of its own, so that no terminal and no group kill reaches it.
func launchDirect(argv []string, l layout) (*launch, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = keeperEnv()
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// What it says before it has its log. A file and no pipe: it outlives this process.
	out, err := os.OpenFile(l.path("log", "keeper.out"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the daemon's keeper: %w", err)
	}
	var ended atomic.Bool
	go func() { // reaps the keeper if it ends before this process; there is nothing to wait for otherwise
		_ = cmd.Wait()
		ended.Store(true)
	}()
	return &launch{hasEnded: ended.Load, out: &tail{file: out.Name()}}, nil
}

// unitName is the systemd unit of a state directory's keeper.
func unitName(l layout) string { return "thawpool-" + l.id + ".service" }

// launchUnit starts the keeper as a transient unit with a delegated group.
func launchUnit(ctx context.Context, argv []string, l layout, uid int) (*launch, error) {
	args := []string{
		"--user", "--quiet", "--collect", "--unit=" + unitName(l), "--description=thawpool private containerd",
		"--property=Type=exec", "--property=Delegate=yes",
		// A sandbox that reaches its memory limit is no reason to stop all of them.
		"--property=OOMPolicy=continue",
		"--property=TasksMax=infinity",
		"--property=TimeoutStopSec=15",
	}
	for _, kv := range keeperEnv() {
		args = append(args, "--setenv="+kv)
	}
	args = append(append(args, "--"), argv...)
	for began := time.Now(); ; {
		cmd := exec.CommandContext(ctx, "systemd-run", args...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+userRuntimeDir(uid)) // cron has none
		out, err := cmd.CombinedOutput()
		if err == nil {
			return &launch{hasEnded: unitEnded(ctx, l, uid), out: &tail{text: "see journalctl --user --unit=" + unitName(l)}}, nil
		}
		err = fmt.Errorf("start the daemon's unit: %w: %s", err, bytes.TrimSpace(out))
		if !bytes.Contains(out, []byte(unitThere)) {
			return nil, runtime.WithHint(fmt.Errorf("%w: %w", runtime.ErrUnsupported, err), host.SetupCommand(uid))
		}
		if time.Since(began) > unitPatience {
			return nil, fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
		}
		select {
		case <-time.After(unitPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w: %w", runtime.ErrUnavailable, ctx.Err(), err)
		}
	}
}

const (
	// unitThere is what systemd says of a unit whose keeper has ended and that it is still taking down.
	unitThere = "was already loaded"
	// unitPatience is how long that may take: the unit's TimeoutStopSec, and a moment.
	unitPatience = 17 * time.Second
)

// unitPoll is how often systemd is asked whether a unit that should be starting still runs: each time costs a process.
const unitPoll = 300 * time.Millisecond

func unitEnded(ctx context.Context, l layout, uid int) func() bool {
	next := time.Now().Add(unitPoll)
	return func() bool {
		if time.Now().Before(next) {
			return false
		}
		next = time.Now().Add(unitPoll)
		cmd := exec.CommandContext(ctx, "systemctl", "--user", "--quiet", "is-active", unitName(l))
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+userRuntimeDir(uid))
		var exit *exec.ExitError
		return errors.As(cmd.Run(), &exit)
	}
}

// userRuntimeDir is the account's own: su leaves the variable of who called it.
func userRuntimeDir(uid int) string {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if info, err := os.Stat(dir); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == uid {
			return dir
		}
	}
	return filepath.Join("/run/user", strconv.Itoa(uid))
}

// keptEnv is what the keeper and containerd need of this process's environment; anything else could be a secret.
var keptEnv = []string{"HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "GOCOVERDIR"}

func keeperEnv() []string {
	env := []string{"PATH=" + searchPath()}
	for _, name := range keptEnv {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// searchPath is this process's PATH and the directories where newuidmap, mount and the shell are.
func searchPath() string {
	dirs := append(filepath.SplitList(os.Getenv("PATH")),
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
	seen := map[string]bool{}
	var kept []string
	for _, dir := range dirs {
		if filepath.IsAbs(dir) && !seen[dir] {
			seen[dir] = true
			kept = append(kept, dir)
		}
	}
	return strings.Join(kept, string(filepath.ListSeparator))
}

// maxTail bounds the last words of a process in bytes.
const maxTail = 2 << 10

// tail is the end of a text, or of a file when it is asked for.
type tail struct{ text, file string }

func (t *tail) String() string {
	text := t.text
	if t.file != "" {
		data, err := os.ReadFile(t.file)
		if err != nil {
			return err.Error()
		}
		text = string(data)
	}
	text = strings.TrimSpace(text)
	if len(text) > maxTail {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxTail:], "")
	}
	if text == "" {
		return "it said nothing"
	}
	return text
}
