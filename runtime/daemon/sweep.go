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

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/host"
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

// socketGrace is how old a socket must be to be taken for a dead shim's: one that is just being made answers nobody for
// a moment.
const socketGrace = 2 * time.Second

// deadSockets removes the sockets that nobody listens on any more. The stock shim leaves some, and so does SIGKILL.
func deadSockets(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // made with the first shim
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || info.Mode()&fs.ModeSocket == 0 || time.Since(info.ModTime()) < socketGrace {
			continue
		}
		if refuses(path) {
			_ = os.Remove(path) // or at the next look
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
