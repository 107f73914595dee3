package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/thawpool/thawpool/cmd/thawpool/bench"
	"github.com/thawpool/thawpool/runtime/guest"
)

// bare is Python without a pool: the same runner and frames on a pipe, each run in a process of its own, started by argv.
type bare struct {
	argv []string
	env  []string
	dir  string // has a workspace for each process; "" where argv brings one
	cred *syscall.Credential
	code string
	// waited is set where all processes of a run are waited for by the one that is started, so that the kernel's count of
	// its CPU is whole.
	waited bool
	// open puts it into a user namespace of ours, so that its memory can be read: its first process forbids that to others.
	open bool
}

// bareProcess is one of its processes.
type bareProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	frames *guest.Reader
	errOut *strings.Builder
	work   string
}

func (f *bare) start() (*bareProcess, error) {
	p := &bareProcess{cmd: exec.Command(f.argv[0], f.argv[1:]...), errOut: &strings.Builder{}}
	p.cmd.Env = f.env
	if f.dir != "" {
		work, err := os.MkdirTemp(f.dir, "w-")
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(work, 0o777); err != nil {
			return nil, err
		}
		p.work = work
		p.cmd.Dir = work
		p.cmd.Env = append(append([]string{}, f.env...), guest.WorkspaceEnv+"="+work)
	}
	p.cmd.Stderr = p.errOut
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: f.cred, Pdeathsig: syscall.SIGKILL}
	if f.open {
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		p.cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.frames = guest.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, p.until(guest.KindReady)
}

// until reads frames up to one of a kind, and fails with what the code ran into.
func (p *bareProcess) until(kind guest.Kind) error {
	for {
		f, err := p.frames.Next()
		if err != nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
			return fmt.Errorf("%s: %w: %.300s", filepath.Base(p.cmd.Path), err, strings.TrimSpace(p.errOut.String()))
		}
		if f.Kind == guest.KindDone && f.Error != nil {
			err = fmt.Errorf("the code raised %s: %s", f.Error.Type, f.Error.Message)
		}
		if err != nil || f.Kind == kind {
			return err
		}
	}
}

// run is one round trip: from the run frame to the exit frame.
func (p *bareProcess) run(code string) (time.Duration, error) {
	began := time.Now()
	if err := guest.NewWriter(p.in).Run(guest.Run{ID: "bench", Code: code, ValueMax: 64 << 10}); err != nil {
		return 0, err
	}
	err := p.until(guest.KindExit)
	return time.Since(began), err
}

// end waits for the process and tells what CPU it and all below it took.
func (p *bareProcess) end() (time.Duration, error) {
	_ = p.in.Close()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil // how the code ended is in the frame
	}
	if p.work != "" {
		err = errors.Join(err, os.RemoveAll(p.work))
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), err
}

// life is one whole process with its run.
func (f *bare) life() bench.Sample {
	began := time.Now()
	p, err := f.start()
	if err != nil {
		return bench.Sample{Err: err}
	}
	up := time.Since(began)
	took, err := p.run(f.code)
	cpu, end := p.end()
	return bench.Sample{Queue: up, Run: took, CPU: cpu, Err: errors.Join(err, end)}
}

// warm is a round trip on a process that has been waiting.
func (f *bare) warm(ctx context.Context) (float64, error) {
	p, err := f.start()
	if err != nil {
		return 0, err
	}
	select { // as a frozen sandbox has settled before its call
	case <-time.After(settle):
	case <-ctx.Done():
	}
	took, err := p.run(f.code)
	_, end := p.end()
	return took.Seconds() * 1000, errors.Join(err, end)
}

// waiting is the memory of one of n that wait.
func (f *bare) waiting(n int) (pss int64, err error) {
	seen := *f
	seen.open = os.Geteuid() != 0
	var all []*bareProcess
	defer func() {
		for _, p := range all {
			_, end := p.end()
			err = errors.Join(err, end)
		}
	}()
	var pids []int
	for range n {
		p, err := seen.start()
		if err != nil {
			return 0, err
		}
		all = append(all, p)
		pids = append(pids, p.cmd.Process.Pid)
	}
	procs, err := bench.ReadProcesses()
	if err != nil {
		return 0, err
	}
	ours := map[int]bool{}
	for _, pid := range pids {
		ours[pid] = true
	}
	for pid, p := range procs {
		if ours[p.Parent] {
			pids = append(pids, pid)
		}
	}
	sum, err := bench.PSS(pids...)
	return sum / int64(n), err
}
