package shim

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// answerPatience bounds how long a shim that was asked to end waits until nobody is connected any more.
	answerPatience = 5 * time.Second
	answerPoll     = 2 * time.Millisecond
)

// endAnswered ends the shim once whoever asked for it has the answer. The ttrpc server does not tell when an answer has
// been written, and its own Shutdown may drop one. containerd, however, closes its connection as soon as it has it, so
// that is waited for. A client that stays connected has had its answer long before the time is up.
func (s *service) endAnswered() {
	defer s.sd.Shutdown()
	deadline := time.Now().Add(answerPatience)
	for connected() && time.Now().Before(deadline) {
		time.Sleep(answerPoll)
	}
}

// connected tells whether this process has an accepted connection: a stream socket of its own name that does not listen.
// A shim's other sockets are clients and have no name.
func connected() bool {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return true
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return true
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if sa, err := unix.Getsockname(fd); err != nil || !named(sa) {
			continue
		}
		if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && listens == 0 {
			return true
		}
	}
	return false
}

func named(sa unix.Sockaddr) bool {
	u, ok := sa.(*unix.SockaddrUnix)
	return ok && u.Name != ""
}
