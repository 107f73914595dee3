package shim

import (
	"context"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// answerPatience bounds how long a shim that was asked to end waits until nobody is connected any more. containerd may
	// keep connections that it used for tasks, so this is not rare.
	answerPatience = time.Second
	// eventPatience bounds the publishing of the last events.
	eventPatience = 5 * time.Second
	answerPoll    = 2 * time.Millisecond
)

// end ends the shim, after it has let go of its socket: containerd may start the next one of that name as soon as it has
// the answer.
func (s *service) end() {
	if path, _ := sockets(); path != "" {
		_ = os.Remove(path)
	}
	go s.exit()
}

// exit ends the process once whoever asked for it has the answer. The ttrpc server does not tell when an answer has been
// written, and its own Shutdown may drop one. containerd, however, closes its connection as soon as it has it, so that
// is waited for. A client that stays connected has had its answer long before the time is up.
//
// It does not leave by the shim package's way, which would remove the socket by its name once more: that may be the next
// shim's by then.
func (s *service) exit() {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	for {
		if _, accepted := sockets(); accepted == 0 || ctx.Err() != nil {
			break
		}
		time.Sleep(answerPoll)
	}
	ctx, cancel = context.WithTimeout(context.Background(), eventPatience)
	defer cancel()
	if err := s.events.drain(ctx); err != nil {
		s.events.log.WithError(err).Warn("events not published")
	}
	os.Exit(0) //nolint:gocritic // nothing is deferred that outlives the process
}

// sockets looks at this process's sockets that have a name: the one that it listens at, and the connections accepted
// there. Those by which it is somebody's client have none.
func sockets() (listens string, accepted int) {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", 0
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil {
			continue
		}
		sa, err := unix.Getsockname(fd)
		if err != nil {
			continue
		}
		at, ok := sa.(*unix.SockaddrUnix)
		if !ok || at.Name == "" {
			continue
		}
		if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && n == 0 {
			accepted++
		} else if err == nil {
			listens = at.Name
		}
	}
	return listens, accepted
}
