//go:build integration

package endtoend

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/actors"
)

// A client that never reads our stderr gets its answers all the same, and the process ends with its input.
func TestUnreadLog(t *testing.T) {
	e, base := env(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, e.StateDir, "serve", "--log-level", "trace", "--pool-size", "2")
	cmd.Stderr = w
	s := start(t, cmd).open()
	_ = w.Close()
	for i := range 8 { // each writes some 2 KB
		if res := s.do(i+1, "print(1)"); res.Status != actors.StatusSuccess {
			t.Fatalf("%+v", res)
		}
	}
	s.close()
	e.RequireNone(t, base)
}
