package ctrd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/guest"
)

func TestKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"deadline", fmt.Errorf("x: %w", context.DeadlineExceeded), runtime.ErrUnavailable},
		{"raw gRPC", status.Error(codes.Unavailable, "x"), runtime.ErrUnavailable},
		{"translated", fmt.Errorf("x: %w", errdefs.ErrUnavailable), runtime.ErrUnavailable},
		{"ours stays", fmt.Errorf("x: %w", runtime.ErrImage), runtime.ErrImage},
	} {
		if err := kind(c.err); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if kind(nil) != nil {
		t.Error("nil is an error")
	}
	if err := kind(io.EOF); errors.Is(err, runtime.ErrUnavailable) || !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	for _, err := range []error{status.Error(codes.NotFound, "x"), fmt.Errorf("x: %w", errdefs.ErrNotFound)} {
		if !absent(err) {
			t.Errorf("%v is not absent", err)
		}
	}
	if absent(nil) || unavailable(nil) {
		t.Error("no error is one")
	}
}

func TestParseLimits(t *testing.T) {
	t.Parallel()
	got := parseLimits(`Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max core file size        0                    unlimited            bytes     
Max open files            1024                 524288               files     
Max locked memory         8388608              8388608              bytes     
`)
	want := map[string]uint64{"RLIMIT_CORE": ^uint64(0), "RLIMIT_NOFILE": 524288, "RLIMIT_MEMLOCK": 8388608}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s is %d, want %d", name, got[name], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("HOST_SECRET", "x")
	env := environment([]string{"PATH=/image", "HOME=/root", "IMAGE=1"}, []string{"numpy", "pandas"})
	seen := map[string]int{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		seen[name]++
	}
	for name, n := range seen {
		if n > 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	if seen["HOST_SECRET"] != 0 || seen["IMAGE"] != 1 || !slices.Contains(env, guest.PreloadEnv+"=numpy,pandas") {
		t.Errorf("%v", env)
	}
	for _, kv := range guest.Env() {
		if !slices.Contains(env, kv) {
			t.Errorf("the guest's %s does not win", kv)
		}
	}
}

func TestConfigComplete(t *testing.T) {
	t.Parallel()
	connect := func(context.Context) (*Backend, error) { return nil, io.EOF }
	limits := runtime.DefaultLimits()
	for name, c := range map[string]Config{
		"connect": {Limits: limits, BinDir: "/b"},
		"limits":  {Connect: connect, BinDir: "/b"},
		"bin":     {Connect: connect, Limits: limits},
		"tasks":   {Connect: connect, Limits: limits, BinDir: "/b", ShimTasks: -1},
		"timeout": {Connect: connect, Limits: limits, BinDir: "/b", BootTimeout: -1},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	rt, err := New(Config{Connect: connect, Limits: limits, BinDir: "/b"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Boot(t.Context(), "a"); !errors.Is(err, io.EOF) {
		t.Errorf("connect's error: %v", err)
	}
	for _, id := range []string{"", "A", "a/b", "../a", "-a", "a_b", strings.Repeat("a", 65)} {
		if _, err := rt.Boot(t.Context(), id); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if err := errors.Join(rt.Close(), rt.Close()); err != nil {
		t.Error(err)
	}
	if _, err := rt.Boot(t.Context(), "a"); !errors.Is(err, errClosed) {
		t.Errorf("boot after close: %v", err)
	}
}

func TestIsShim(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"/b/containerd-shim-runc-v2\x00-namespace\x00thawpool\x00-id\x00a\x00-address\x00x\x00": true,
		"/b/containerd-shim-runc-v2\x00-namespace\x00thawpool\x00-id\x00ab\x00":                 false,
		"/b/containerd-shim-runc-v2\x00-id\x00a\x00delete\x00":                                  false,
		"/b/other\x00-id\x00a\x00":              false,
		"/b/containerd-shim-runc-v2\x00-id\x00": false,
		"":                                      false,
	} {
		if isShim([]byte(line), "a") != want {
			t.Errorf("%q", line)
		}
	}
}

// TestStdio plays the daemon's side of the FIFOs.
func TestStdio(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x")
	s, err := makeStdio(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"in", "out", "err"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Type() != os.ModeNamedPipe || info.Mode().Perm() != 0o666 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := makeStdio(dir); err == nil {
		t.Error("two sandboxes in one directory")
	}
	open := func(name string, flag int) *os.File {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	in, out, stderr := open("in", os.O_RDONLY), open("out", os.O_WRONLY), open("err", os.O_WRONLY)
	if err := s.attach(); err != nil {
		t.Fatal(err)
	}
	st := stream{s}
	if _, err := st.Write([]byte("to")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2)
	if _, err := io.ReadFull(in, buf); err != nil || string(buf) != "to" {
		t.Errorf("%q, %v", buf, err)
	}
	if _, err := out.WriteString("fr"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(st, buf); err != nil || string(buf) != "fr" {
		t.Errorf("%q, %v", buf, err)
	}
	if words := s.lastWords(); words != "" {
		t.Errorf("words %q", words)
	}
	if _, err := stderr.WriteString(strings.Repeat("x", 2*maxStderr) + "why\n"); err != nil {
		t.Fatal(err)
	}
	if words := s.lastWords(); len(words) > maxStderr || !strings.HasSuffix(words, "why") {
		t.Errorf("%d bytes of words", len(words))
	}
	if err := st.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Error(err)
	}
	if _, err := st.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	// A shim that still copies is not kept waiting by a full pipe.
	s.drain()
	s.close()
	if _, err := st.Read(buf); !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	if _, err := out.Write(make([]byte, 1<<20)); err != nil {
		t.Errorf("the drain does not read: %v", err)
	}
	for range 2 {
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestWithdraw: what nobody inside has read can be taken back, also after its end, and nothing else.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		write, read int
		ends        bool
		want        bool
	}{
		"unread":             {write: 100, want: true},
		"unread at the end":  {write: 100, ends: true, want: true},
		"nothing":            {ends: true, want: true},
		"read":               {write: 100, read: 100},
		"begun":              {write: 100, read: 1, ends: true},
		"more than one page": {write: 60_000, ends: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := makeStdio(filepath.Join(t.TempDir(), "x"))
			if err != nil {
				t.Fatal(err)
			}
			in, err := os.OpenFile(filepath.Join(s.dir, "in"), os.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.attach(); err != nil {
				t.Fatal(err)
			}
			if _, err := (stream{s}).Write(make([]byte, tt.write)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(in, make([]byte, tt.read)); err != nil {
				t.Fatal(err)
			}
			if tt.ends {
				_ = in.Close()
			}
			if got := s.withdraw(); got != tt.want {
				t.Errorf("withdrawn %v", got)
			}
			if n := s.unread(); tt.want && n != 0 || !tt.want && n != int64(tt.write-tt.read) {
				t.Errorf("%d bytes are there", n)
			}
			_ = in.Close()
			if err := s.remove(); err != nil {
				t.Error(err)
			}
			if s.withdraw() {
				t.Error("withdrawn after the end")
			}
		})
	}
}

// lateContext is over by its deadline, and its timer has not noticed.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// TestExpired: the daemon's word that time is up counts also where it comes before one's own timer.
func TestExpired(t *testing.T) {
	t.Parallel()
	err := errors.New("context deadline exceeded")
	if got := expired(t.Context(), err); errors.Is(got, runtime.ErrUnavailable) {
		t.Errorf("with time left: %v", got)
	}
	if got := expired(lateContext{t.Context()}, err); !errors.Is(got, runtime.ErrUnavailable) {
		t.Errorf("after the deadline: %v", got)
	}
}

// TestPatience: a slow machine is given time, and the time is taken back when it is slow no more.
func TestPatience(t *testing.T) {
	t.Parallel()
	p := newShims(&session{cfg: Config{BootTimeout: 30 * time.Second}})
	for _, step := range []struct{ took, want time.Duration }{
		{time.Millisecond, shimPatience}, {shimPatience, 2 * shimPatience}, {2 * shimPatience, 4 * shimPatience}, {20 * time.Second, 30 * time.Second},
		{8 * time.Second, 16 * time.Second}, {time.Second, shimPatience},
	} {
		if p.learn(step.took); p.patient() != step.want {
			t.Errorf("after %v patience is %v, want %v", step.took, p.patient(), step.want)
		}
	}
}
