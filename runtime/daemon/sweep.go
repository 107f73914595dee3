package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/image"
)

// sweepPatience bounds one sweep. A daemon that hangs is noticed by its health, not here; and a delete that is broken off
// leaves what only the next daemon clears.
const sweepPatience = 2 * time.Minute

// sweep removes what users left who are not living any more; with all set, everything. A new containerd remembers the
// containers of the one before, of which nothing runs.
func (k *keeper) sweep(ctx context.Context, b *box, all bool, living map[host.Owner]bool) error {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	found, err := ctrd.Sweep(ctx, ctrd.SweepConfig{
		Address: k.layout.socket(),
		PID:     b.proc.pid,
		FIFODir: k.layout.path("fifo"),
		Group:   host.OpenGroup(k.place.version, k.place.hostPath),
		Alive: func(o host.Owner) bool {
			return !all && (living[o] || o.Alive())
		},
	})
	k.note(func(t *Tally) {
		t.Sweeps++
		t.Removed = t.Removed.Plus(found)
		if err != nil {
			t.SweepFailures++
		}
	})
	if found.Any() {
		k.log.Info().Object("found", found).Msg("removed what was left")
	}
	return err
}

// settle has a new containerd's snapshotter agree with its records.
func (k *keeper) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	client, err := containerd.New(k.layout.socket(), containerd.WithDefaultNamespace(ctrd.Namespace))
	if err != nil {
		return err
	}
	return errors.Join(image.Settle(ctx, client), client.Close())
}

// socketGrace is how long nobody must have listened on a socket for it to be taken for a dead shim's: one that is just
// being made answers nobody for a moment.
const socketGrace = 2 * time.Second

// suspects are the sockets on which nobody listens, with the time at which that was first seen.
type suspects map[string]time.Time

// sweep removes the sockets that nobody has listened on for a while. The stock shim leaves some, and so does SIGKILL.
func (s suspects) sweep(dirs ...string) {
	for _, dir := range dirs {
		s.look(dir)
	}
	for path := range s { // gone by itself
		if _, err := os.Lstat(path); err != nil {
			delete(s, path)
		}
	}
}

func (s suspects) look(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // made with the first socket
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		since, seen := s[path]
		switch {
		case e.Type()&fs.ModeSocket == 0 || !refuses(path):
			delete(s, path)
		case !seen:
			s[path] = time.Now()
		case time.Since(since) >= socketGrace:
			_ = os.Remove(path)
			delete(s, path)
		}
	}
}

// refuses tells whether a socket has no listener. Its directory is opened for the sake of the path's length.
func refuses(path string) bool {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}
