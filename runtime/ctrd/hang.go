package ctrd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// stoppedEvery is how often who has not answered yet is looked at. One that is seen stopped twice in a row is not waited
// for.
const stoppedEvery = 500 * time.Millisecond

// patiently makes a request, and tells whether who has to answer it hangs: it is stopped by a signal, or patience was not
// enough.
func patiently(ctx context.Context, patience time.Duration, stopped func() bool, request func(context.Context) error) (hangs bool, err error) {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	look := time.AfterFunc(stoppedEvery, func() {
		for seen := 0; short.Err() == nil; {
			if seen++; !stopped() {
				seen = 0
			}
			if seen == 2 {
				cancel()
				return
			}
			select {
			case <-time.After(stoppedEvery):
			case <-short.Done():
			}
		}
	})
	defer look.Stop()
	err = request(short)
	return err != nil && ended(short) != nil && ended(ctx) == nil, err
}

// shimRef names the processes of a shim: by the daemon that started them, and the id that they were started for.
type shimRef struct {
	daemon int // containerd's process
	id     string
}

// ask makes a request that the shim has to answer, and kills it when it hangs. containerd then clears up after its tasks.
func (r shimRef) ask(ctx context.Context, request func(context.Context) error) error {
	hangs, err := patiently(ctx, shimPatience, r.stopped, request)
	if hangs {
		r.kill()
	}
	return err
}

// stopped tells whether one of the processes was stopped by a signal or a debugger.
func (r shimRef) stopped() bool {
	for _, pid := range r.processes() {
		if host.Stopped(pid) {
			return true
		}
	}
	return false
}

// kill kills the processes, and gives their number.
func (r shimRef) kill() int {
	killed := 0
	for _, pid := range r.processes() {
		if unix.Kill(pid, unix.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

// processes are the shim's. One that does not answer can only be reached as a process, and containerd's API names none. It
// is told from the shims of other daemons by its pid namespace.
func (r shimRef) processes() []int {
	home, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", r.daemon))
	if err != nil {
		return nil
	}
	return processesThat(func(dir string) bool {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !isShim(line, r.id) {
			return false
		}
		ns, err := os.Readlink(filepath.Join(dir, "ns/pid"))
		return err == nil && ns == home
	})
}

// processesThat looks at the directory in /proc of each process.
func processesThat(are func(dir string) bool) (pids []int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	for _, dir := range dirs {
		if !are(dir) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isShim looks at a command line as containerd starts shims with. What it starts to clear up after a dead one is none: were
// that killed too, what it has to remove would stay.
func isShim(line []byte, id string) bool {
	args := strings.Split(string(bytes.TrimSuffix(line, []byte{0})), "\x00")
	if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim-") || args[len(args)-1] == "delete" {
		return false
	}
	for i, a := range args[:len(args)-1] {
		if a == "-id" && args[i+1] == id {
			return true
		}
	}
	return false
}

// ask makes a request that a shim has to answer in time. One that hangs is killed; containerd then clears up after all its
// tasks, and nothing waits for it any more.
func (p *shims) ask(ctx context.Context, h *shim, patience time.Duration, request func(context.Context) error) error {
	ref := p.ref(h)
	hangs, err := patiently(ctx, patience, ref.stopped, request)
	if hangs && !p.s.lost() {
		p.condemn(h)
		p.s.cfg.Log.Warn().Str("shim", ref.id).Int("processes", ref.kill()).Msg("a shim hangs and is killed")
		err = fmt.Errorf("%w: its shim hangs: %w", runtime.ErrUnavailable, err)
	}
	return err
}

// askPrompt is ask for what a shim that does not hang answers within milliseconds.
func (p *shims) askPrompt(ctx context.Context, h *shim, request func(context.Context) error) error {
	began := time.Now()
	defer func() { p.learn(time.Since(began)) }()
	return p.ask(ctx, h, p.patient(), request)
}

func (p *shims) ref(h *shim) shimRef {
	p.mu.Lock()
	defer p.mu.Unlock()
	return shimRef{daemon: p.s.backend.PID, id: h.leader}
}

// patient is how long a shim that starts is waited for, and one that makes or starts a task.
func (p *shims) patient() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.patience
}

// learn gives the next one twice the time that this one has taken, or was given: the machine may be slower than any.
func (p *shims) learn(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.patience = min(max(shimPatience, 2*took), p.s.cfg.BootTimeout)
}
