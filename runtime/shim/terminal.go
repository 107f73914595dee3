package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/containerd/console"
	"github.com/containerd/errdefs"
	"github.com/containerd/fifo"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/utils"
	"golang.org/x/sys/unix"
)

// terminal carries bytes between a pty and the client's FIFOs: the one case in which the shim copies.
type terminal struct {
	parent *os.File // our end of the console socket
	child  *os.File
	con    console.Console
	cancel context.CancelFunc
	copies sync.WaitGroup
}

func newTerminal(lc *libcontainer.Process) (*terminal, error) {
	parent, child, err := utils.NewSockPair("console")
	if err != nil {
		return nil, err
	}
	lc.ConsoleSocket = child
	return &terminal{parent: parent, child: child}, nil
}

// attach receives the pty that the init has made and starts copying.
func (t *terminal) attach(s streams) error {
	_ = t.child.Close()
	file, err := receiveFile(t.parent)
	if err != nil {
		return err
	}
	if t.con, err = console.ConsoleFromFile(file); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	if s.stdin != "" {
		in, err := fifo.OpenFifo(ctx, s.stdin, unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(t.con, in)
			_ = in.Close()
		}()
	}
	if s.stdout != "" {
		out, err := fifo.OpenFifo(ctx, s.stdout, unix.O_WRONLY, 0)
		if err != nil {
			return err
		}
		// Keeps the FIFO readable while no client has it open.
		keep, err := fifo.OpenFifo(ctx, s.stdout, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		t.copies.Add(1)
		go func() {
			defer t.copies.Done()
			_, _ = io.Copy(out, t.con)
			_ = out.Close()
			_ = keep.Close()
		}()
	}
	return nil
}

// drain waits for the last output after the process has gone, then closes. t may be nil.
func (t *terminal) drain() {
	if t == nil {
		return
	}
	t.copies.Wait()
	t.close()
}

func (t *terminal) close() {
	if t == nil {
		return
	}
	if t.cancel != nil {
		t.cancel()
	}
	_ = t.parent.Close()
	_ = t.child.Close()
	if t.con != nil {
		_ = t.con.Close()
	}
}

// receiveFile takes the one descriptor that the init sends over its console socket.
func receiveFile(socket *os.File) (*os.File, error) {
	name, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(int(socket.Fd()), name, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("console socket: %d messages: %w", len(messages), errors.Join(err, unix.EPROTO))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("console socket: %d descriptors: %w", len(fds), errors.Join(err, unix.EPROTO))
	}
	return os.NewFile(uintptr(fds[0]), string(name[:n])), nil
}

// resize is an error for a process without a terminal, t being nil then.
func (t *terminal) resize(width, height uint32) error {
	if t == nil || t.con == nil {
		return fmt.Errorf("process has no terminal: %w", errdefs.ErrFailedPrecondition)
	}
	return t.con.Resize(console.WinSize{Width: uint16(width), Height: uint16(height)})
}
