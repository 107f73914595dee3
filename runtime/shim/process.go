package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/utils"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// streams is where a client wants a process's standard streams: paths or URIs as containerd sends them.
type streams struct {
	stdin, stdout, stderr string
	terminal              bool
}

// process is a container's init, or one that was added by exec.
type process struct {
	id      string // exec id; empty for the init
	spec    *specs.Process
	streams streams

	mu       sync.Mutex // guards what follows up to done
	lc       *libcontainer.Process
	io       *stdio
	tty      *terminal
	pid      int
	started  bool
	exit     int
	exitedAt time.Time

	// announced is held while a start is under way, so that an exit is never published before its start.
	announced sync.Mutex
	done      chan struct{} // closed when exit and exitedAt are valid
}

func newShimProcess(id string, spec *specs.Process, s streams) *process {
	return &process{id: id, spec: spec, streams: s, done: make(chan struct{})}
}

// spawn starts the process in the container. An init then waits at its exec FIFO for Exec. The caller holds announced.
func (p *process) spawn(c *libcontainer.Container, init bool) error {
	lc, err := newProcess(p.spec, init)
	if err != nil {
		return fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, err)
	}
	var sio *stdio
	var tty *terminal
	if p.streams.terminal {
		if tty, err = newTerminal(lc); err != nil {
			return err
		}
	} else {
		if sio, err = openStdio(p.streams.stdin, p.streams.stdout, p.streams.stderr); err != nil {
			return err
		}
		lc.Stdin, lc.Stdout, lc.Stderr = sio.in, sio.out, sio.err
	}
	err = c.Start(lc)
	if sio != nil {
		sio.closeChild()
	}
	if err == nil && tty != nil {
		err = tty.attach(p.streams)
	}
	if err != nil {
		if sio != nil {
			sio.closeKept()
		}
		tty.close()
		return err
	}
	pid, err := lc.Pid()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.lc, p.io, p.tty, p.pid = lc, sio, tty, pid
	p.mu.Unlock()
	return nil
}

// wait returns when the process has exited and records how. It takes no thread while it waits: the pidfd is polled.
func (p *process) wait() {
	waitExit(p.pid)
	state, err := p.lc.Wait()
	at := time.Now()
	code := 255
	var exitErr interface{ Sys() any }
	switch {
	case state != nil:
		if ws, ok := state.Sys().(syscall.WaitStatus); ok {
			code = utils.ExitStatus(unix.WaitStatus(ws))
		}
	case errors.As(err, &exitErr):
		if ws, ok := exitErr.Sys().(syscall.WaitStatus); ok {
			code = utils.ExitStatus(unix.WaitStatus(ws))
		}
	}
	p.mu.Lock()
	p.exit, p.exitedAt = code, at
	if p.io != nil {
		p.io.closeKept()
	}
	tty := p.tty
	p.mu.Unlock()
	tty.drain()
}

// waitExit blocks its goroutine, not a thread, until pid is a zombie. On an error it returns at once: Wait will block.
func waitExit(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err != nil && !errors.Is(err, unix.EINTR) || n > 0
	})
}

// status is a copy of what State and Wait report.
type status struct {
	pid, exit int
	exitedAt  time.Time
	started   bool
	exited    bool
}

func (p *process) status() status {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := status{pid: p.pid, started: p.started, exit: p.exit, exitedAt: p.exitedAt}
	select {
	case <-p.done:
		st.exited = true
	default:
	}
	return st
}

func (p *process) awaitDone(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *process) signal(sig unix.Signal) error {
	p.mu.Lock()
	lc := p.lc
	p.mu.Unlock()
	if lc == nil {
		return fmt.Errorf("process %q has not started: %w", p.id, errdefs.ErrFailedPrecondition)
	}
	select {
	case <-p.done:
		return errProcessGone
	default:
	}
	if err := lc.Signal(sig); err != nil {
		if errors.Is(err, os.ErrProcessDone) || errors.Is(err, unix.ESRCH) {
			return errProcessGone
		}
		return err
	}
	return nil
}

var errProcessGone = fmt.Errorf("process already finished: %w", errdefs.ErrNotFound)
