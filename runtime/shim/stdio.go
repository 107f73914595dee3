package shim

import (
	"fmt"
	"net/url"
	"os"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// stdio is one process's standard streams. Where they are FIFOs the process gets the FIFOs themselves and nothing
// copies bytes; keep holds both ends open in the shim so that neither side's open blocks and no end is lost while a
// client is away.
type stdio struct {
	in, out, err *os.File // for the child; closed once it has started
	keepIn       *os.File // closed by CloseIO, or at exit
	keep         []*os.File
}

func openStdio(stdin, stdout, stderr string) (_ *stdio, retErr error) {
	s := &stdio{}
	defer func() {
		if retErr != nil {
			s.closeChild()
			s.closeKept()
		}
	}()
	var err error
	if s.in, err = s.open(stdin, unix.O_RDONLY); err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	if s.out, err = s.open(stdout, unix.O_WRONLY); err != nil {
		return nil, fmt.Errorf("stdout: %w", err)
	}
	if s.err, err = s.open(stderr, unix.O_WRONLY); err != nil {
		return nil, fmt.Errorf("stderr: %w", err)
	}
	return s, nil
}

// open opens one stream: nothing, a FIFO, or a file:// log.
func (s *stdio) open(where string, mode int) (*os.File, error) {
	if where == "" {
		return os.OpenFile(os.DevNull, mode, 0)
	}
	u, err := url.Parse(where)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "", "fifo":
	case "file":
		return os.OpenFile(u.Path, unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND, 0o644)
	default:
		return nil, fmt.Errorf("scheme %q: %w", u.Scheme, errdefs.ErrNotImplemented)
	}
	both, err := os.OpenFile(u.Path, unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if mode == unix.O_RDONLY {
		s.keepIn = both
	} else {
		s.keep = append(s.keep, both)
	}
	fd, err := unix.Open(u.Path, mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: u.Path, Err: err}
	}
	return os.NewFile(uintptr(fd), u.Path), nil
}

// closeChild closes what only the child needs.
func (s *stdio) closeChild() {
	for _, f := range []*os.File{s.in, s.out, s.err} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// closeStdin gives the process an end of input once the client has closed its side too.
func (s *stdio) closeStdin() {
	if s.keepIn != nil {
		_ = s.keepIn.Close()
		s.keepIn = nil
	}
}

// closeKept gives readers their end of file.
func (s *stdio) closeKept() {
	s.closeStdin()
	for _, f := range s.keep {
		_ = f.Close()
	}
	s.keep = nil
}
