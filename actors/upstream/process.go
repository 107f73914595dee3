package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/actors/catalog/text"
)

// process is a child with pipes on its three descriptors, in a process group of its own. When the child ends, however
// it ends, what is left of its group and of its descendants is killed before exited closes.
type process struct {
	cfg    *Config
	mark   string
	pid    int
	stdin  *queue
	stdout *os.File
	stderr *tail

	exited chan struct{}    // closed when everything is gone
	state  *os.ProcessState // set before exited closes

	mu   sync.Mutex // guards gone
	gone bool       // the child is reaped, or is being: its pid may be another's
}

// pipes are both ends of a child's three descriptors.
type pipes struct{ inR, inW, outR, outW, errR, errW *os.File }

func openPipes() (p pipes, err error) {
	for _, ends := range [][2]**os.File{{&p.inR, &p.inW}, {&p.outR, &p.outW}, {&p.errR, &p.errW}} {
		if *ends[0], *ends[1], err = os.Pipe(); err != nil {
			p.close()
			return pipes{}, err
		}
	}
	return p, nil
}

func (p pipes) close() {
	for _, f := range []*os.File{p.inR, p.inW, p.outR, p.outW, p.errR, p.errW} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func (p pipes) closeChildEnds() {
	_ = p.inR.Close()
	_ = p.outW.Close()
	_ = p.errW.Close()
}

// startProcess starts the child. The caller must make sure that kill or stop is called.
func startProcess(cfg *Config) (*process, error) {
	p := &process{cfg: cfg, mark: newMark(), stderr: &tail{}, exited: make(chan struct{})}
	env := childEnv(os.Environ(), cfg.Env, p.mark)
	path, err := lookPath(cfg.Command, cfg.Dir, env)
	if err == nil {
		err = checkDir(cfg.Dir)
	}
	if err != nil {
		return nil, cfg.fail(ErrStart, err)
	}
	ends, err := openPipes()
	if err != nil {
		return nil, cfg.fail(ErrStart, err)
	}
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{cfg.Command}, cfg.Args...), Env: env, Dir: cfg.Dir,
		Stdin: ends.inR, Stdout: ends.outW, Stderr: ends.errW,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	started := make(chan error, 1)
	go p.own(cmd, ends, started)
	err = <-started
	ends.closeChildEnds()
	if err != nil {
		ends.close()
		return nil, cfg.fail(ErrStart, startError(path, err))
	}
	p.stdin, p.stdout = newQueue(ends.inW, cfg.MaxQueued), ends.outR
	cfg.Guard.add(p.pid)
	return p, nil
}

// own starts the child, waits for its end and clears up behind it. Pdeathsig fires when the *thread* that started the
// child ends, so this goroutine keeps its thread for as long as the child lives.
func (p *process) own(cmd *exec.Cmd, ends pipes, started chan<- error) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		// A pipe that nobody reads blocks the server once it has written 64 KiB.
		_, _ = io.Copy(p.stderr, ends.errR)
	}()
	p.waitDead()
	// The child is a zombie: its pid, and with it the group's id, cannot have been given to anyone else yet.
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	_ = cmd.Wait() // the state tells more than the error
	p.state = cmd.ProcessState
	killMark(p.mark)
	p.cfg.Guard.remove(p.pid)
	// What the dead have written is still in the pipes; only a process that escaped every kill could hold them open.
	deadline := time.Now().Add(drainGrace)
	_ = ends.errR.SetReadDeadline(deadline)
	_ = ends.outR.SetReadDeadline(deadline)
	<-drained
	_ = ends.errR.Close()
	close(p.exited)
}

// waitDead returns when the child has ended, without reaping it.
func (p *process) waitDead() {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// signal reaches the whole group, while its id is surely still the group's.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = syscall.Kill(-p.pid, sig)
	}
}

// kill ends everything at once and does not wait.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	_ = p.stdin.Close()
}

// stop lets the child leave by itself when its stdin closes, then asks, then forces. When ctx ends it forces at once. It
// returns when everything is gone.
func (p *process) stop(ctx context.Context) error {
	_ = p.stdin.Close()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		grace := time.NewTimer(exitGrace)
		select {
		case <-p.exited:
			grace.Stop()
			return nil
		case <-grace.C:
			p.signal(sig)
		case <-ctx.Done():
			grace.Stop()
			p.signal(syscall.SIGKILL)
		}
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(reapGrace):
		return p.cfg.fail(ErrLost, fmt.Errorf("process %d does not end after SIGKILL", p.pid))
	}
}

// epitaph says how the child ended, or that it has not, with the end of its stderr. It waits a moment for the end, since
// the pipes close before the process is gone.
func (p *process) epitaph() string {
	var s string
	select {
	case <-p.exited:
		s = ending(p.state)
	case <-time.After(exitGrace):
		s = "closed its output and still runs"
	}
	if words := p.lastWords(); words != "" {
		s += "; the end of its stderr:\n" + words
	}
	return s
}

// maxLastWords bounds the part of stderr that errors quote, in bytes.
const maxLastWords = 1200

// lastWords is the end of stderr, fit to be shown.
func (p *process) lastWords() string {
	s := text.Clean(p.cfg.redact(p.stderr.String()), tailSize)
	if len(s) > maxLastWords {
		s = s[len(s)-maxLastWords:]
		if i := strings.IndexByte(s, '\n'); i >= 0 && i < maxLastWords/2 {
			s = s[i+1:]
		}
		s = "… " + text.Clean(s, maxLastWords)
	}
	return s
}

func ending(state *os.ProcessState) string {
	ws, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && ws.Signaled():
		return fmt.Sprintf("was killed by %s", unix.SignalName(ws.Signal()))
	case state.ExitCode() == 0:
		return "exited with status 0"
	default:
		return fmt.Sprintf("exited with status %d", state.ExitCode())
	}
}
