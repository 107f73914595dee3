package ctrd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxStderr bounds what is kept of a runner's own stderr, in bytes. It is for boot errors: user output comes in frames.
const maxStderr = 4 << 10

// stdio is the host's side of a sandbox's three FIFOs. The descriptors are non-blocking, so waiting costs no thread and
// deadlines work; nothing copies.
type stdio struct {
	dir    string
	in     *os.File // first open both ways, so that the daemon never finds a FIFO without a writer
	out    *os.File
	err    *os.File
	closed sync.Once

	written atomic.Int64 // bytes that in has taken

	drains   sync.WaitGroup
	draining context.Context // ends with remove
	drained  context.CancelFunc
}

// makeStdio makes the FIFOs in a directory of their own. They are open to all ids, since runtimes give them to the id
// that runs inside; the directory is not.
func makeStdio(dir string) (_ *stdio, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make FIFOs: %w", err)
	}
	s := &stdio{dir: dir}
	s.draining, s.drained = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make FIFOs: %w", err), s.remove())
		}
	}()
	for _, name := range []string{"in", "out", "err"} {
		path := filepath.Join(dir, name)
		if err := unix.Mkfifo(path, 0o666); err != nil {
			return nil, &os.PathError{Op: "mkfifo", Path: path, Err: err}
		}
		if err := os.Chmod(path, 0o666); err != nil { // whatever the umask
			return nil, err
		}
	}
	if s.in, err = openFIFO(filepath.Join(dir, "in"), unix.O_RDWR); err != nil {
		return nil, err
	}
	if s.out, err = openFIFO(filepath.Join(dir, "out"), unix.O_RDONLY); err != nil {
		return nil, err
	}
	s.err, err = openFIFO(filepath.Join(dir, "err"), unix.O_RDONLY)
	return s, err
}

func openFIFO(path string, mode int) (*os.File, error) {
	fd, err := unix.Open(path, mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil // non-blocking, so it joins the poller
}

// attach is called once the daemon has opened its side: from now on only the sandbox keeps stdin readable, and a write
// after its end fails.
func (s *stdio) attach() error {
	in, err := openFIFO(filepath.Join(s.dir, "in"), unix.O_WRONLY)
	if err != nil {
		return err
	}
	both := s.in
	s.in = in
	return both.Close()
}

// lastWords is the end of what is in the stderr FIFO now.
func (s *stdio) lastWords() string {
	var kept []byte
	buf := make([]byte, maxStderr)
	conn, err := s.err.SyscallConn()
	if err != nil {
		return ""
	}
	for {
		n := 0
		if err := conn.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) }); err != nil || n <= 0 {
			break
		}
		kept = append(kept, buf[:n]...)
		kept = kept[max(0, len(kept)-maxStderr):]
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(kept), "?"))
}

// drain reads what still comes, by a descriptor of its own, until remove: a shim that copies must not wait for a reader
// when it is to end.
func (s *stdio) drain() {
	for _, name := range []string{"out", "err"} {
		f, err := openFIFO(filepath.Join(s.dir, name), unix.O_RDONLY)
		if err != nil {
			continue // then the shim has no reader at all, and its writes fail
		}
		s.drains.Add(1)
		stop := context.AfterFunc(s.draining, func() { _ = f.Close() })
		go func() {
			defer s.drains.Done()
			defer stop()
			_, _ = io.Copy(io.Discard, f)
			_ = f.Close()
		}()
	}
}

// withdraw reads back what is in the FIFO of stdin if all that was written is still there. A runner reads its run with one
// read, so either has it whole. A shim that copies has read it too, and then what the runner has is not known.
func (s *stdio) withdraw() bool {
	if s.unread() != s.written.Load() {
		return false
	}
	fd, err := unix.Open(filepath.Join(s.dir, "in"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 64<<10)
	for left := int64(0); ; {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return left == s.written.Load()
		}
		left += int64(n)
	}
}

// unread is how many bytes are in the FIFO of stdin; less than 0 when it is closed.
func (s *stdio) unread() int64 {
	conn, err := s.in.SyscallConn()
	if err != nil {
		return -1
	}
	n := int64(-1)
	if err := conn.Control(func(fd uintptr) {
		if v, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			n = int64(v)
		}
	}); err != nil {
		return -1
	}
	return n
}

// close ends blocked reads and writes.
func (s *stdio) close() {
	s.closed.Do(func() {
		for _, f := range []*os.File{s.in, s.out, s.err} {
			if f != nil {
				_ = f.Close()
			}
		}
	})
}

// remove closes the descriptors and removes the FIFOs. It may be called again.
func (s *stdio) remove() error {
	s.close()
	s.drained()
	s.drains.Wait()
	return os.RemoveAll(s.dir)
}

// stream is the frame channel.
type stream struct{ *stdio }

func (s stream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF // Destroy closed it: the runner is gone
	}
	return n, err
}

func (s stream) Write(p []byte) (int, error) {
	n, err := s.in.Write(p)
	s.written.Add(int64(n))
	return n, err
}

// SetReadDeadline bounds reads of the stream, as on a net.Conn.
func (s stream) SetReadDeadline(t time.Time) error { return s.out.SetReadDeadline(t) }

// SetWriteDeadline bounds writes to the stream, as on a net.Conn.
func (s stream) SetWriteDeadline(t time.Time) error { return s.in.SetWriteDeadline(t) }
