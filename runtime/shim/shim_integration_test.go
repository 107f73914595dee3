//go:build integration

package shim_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/api/events"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/guest"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/image"
	"github.com/thawpool/thawpool/runtime/shim"
)

// state is the state directory that all tests share: making the default image takes seconds.
var state = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("/var/tmp", "tp-")
	made = err == nil
	return filepath.Join(dir, "s"), err
})

// made tells the clean-up whether there is such a directory.
var made bool

func TestMain(m *testing.M) {
	ctrdtest.Main(m, func() error {
		if !made {
			return nil
		}
		dir, err := state()
		return errors.Join(err, ctrdtest.RemoveState(dir))
	})
}

// bench is a daemon with the default image, and containers on it by the shim's runtime name alone: containerd starts a
// shim for each, as `ctr run --runtime` does.
type bench struct {
	*testing.T
	e     *ctrdtest.Env
	d     *daemon.Daemon
	c     *containerd.Client
	ready image.Ready
	spec  string // prefix of cgroup paths
}

func newBench(t *testing.T) *bench {
	dir, err := state()
	if err != nil {
		t.Fatal(err)
	}
	e := ctrdtest.OpenEnv(t, dir)
	d := e.Ensure(t)
	c, err := containerd.New(d.Address(), containerd.WithDefaultNamespace(ctrd.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ready, err := image.Ensure(t.Context(), c, "", e.Log)
	if err != nil {
		t.Fatal(err)
	}
	_, _, spec := d.CgroupBase()
	return &bench{T: t, e: e, d: d, c: c, ready: ready, spec: spec}
}

// box is one container with its FIFOs.
type box struct {
	containerd.Container
	task    containerd.Task
	in      *os.File
	out     *bufio.Reader
	exited  <-chan containerd.ExitStatus
	fifoDir string
}

// create makes a container whose task is created and not started.
func (b *bench) create(id, code string, change ...func(*specs.Spec)) *box {
	b.Helper()
	ctx := b.Context()
	x := &box{fifoDir: filepath.Join(b.d.FIFODir(), id)}
	if err := os.MkdirAll(x.fifoDir, 0o700); err != nil {
		b.Fatal(err)
	}
	files := make([]*os.File, 3)
	for i, name := range []string{"in", "out", "err"} {
		path := filepath.Join(x.fifoDir, name)
		if err := unix.Mkfifo(path, 0o666); err != nil {
			b.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			b.Fatal(err)
		}
		mode := os.O_RDONLY
		if i == 0 {
			mode = os.O_RDWR
		}
		f, err := os.OpenFile(path, mode|unix.O_NONBLOCK, 0)
		if err != nil {
			b.Fatal(err)
		}
		files[i] = f
	}
	x.in, x.out = files[0], bufio.NewReader(files[1])
	view := "view-" + id
	mounts := b.c.SnapshotService(b.ready.Snapshotter)
	if _, err := mounts.View(ctx, view, b.ready.ChainID, keep); err != nil {
		b.Fatal(err)
	}
	spec := runtime.NewSpec(runtime.SpecConfig{
		Args: []string{b.ready.Python, "-I", "-u", "-c", code}, Env: guest.Env(), CgroupsPath: filepath.Join(b.spec, id),
		Limits: runtime.DefaultLimits(),
	})
	for _, f := range change {
		f(spec)
	}
	self, err := host.Self()
	if err != nil {
		b.Fatal(err)
	}
	// With an owner that lives, as the keeper's sweep takes what nobody owns.
	ctr, err := b.c.NewContainer(ctx, id, containerd.WithRuntime(shim.Name, nil),
		containerd.WithContainerLabels(map[string]string{host.LabelOwner: self.String()}),
		func(_ context.Context, _ *containerd.Client, c *containers.Container) error {
			c.Snapshotter, c.SnapshotKey = b.ready.Snapshotter, view
			return nil
		}, containerd.WithSpec(spec))
	if err != nil {
		b.Fatal(err)
	}
	x.Container = ctr
	b.Cleanup(func() {
		ctx := context.Background()
		if x.task != nil {
			if _, err := x.task.Delete(ctx, containerd.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
				b.Errorf("delete %s: %v", id, err)
			}
		}
		if err := ctr.Delete(ctx); err != nil && !errdefs.IsNotFound(err) {
			b.Errorf("delete container %s: %v", id, err)
		}
		_ = mounts.Remove(ctx, view)
		for _, f := range files {
			_ = f.Close()
		}
		_ = os.RemoveAll(x.fifoDir)
	})
	inside := func(name string) string { return b.d.Inside(filepath.Join(x.fifoDir, name)) }
	if x.task, err = ctr.NewTask(ctx, fifos(inside("in"), inside("out"), inside("err"))); err != nil {
		b.Fatal(err)
	}
	if x.exited, err = x.task.Wait(ctx); err != nil {
		b.Fatal(err)
	}
	return x
}

// keep holds a snapshot that no container names yet.
var keep = snapshots.WithLabels(map[string]string{"containerd.io/gc.root": "test"})

// fifos names streams that this test opens itself.
func fifos(in, out, errs string) cio.Creator {
	return func(string) (cio.IO, error) {
		return cio.Load(cio.NewFIFOSet(cio.Config{Stdin: in, Stdout: out, Stderr: errs}, nil))
	}
}

func (b *bench) start(id, code string, change ...func(*specs.Spec)) *box {
	b.Helper()
	x := b.create(id, code, change...)
	if err := x.task.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	return x
}

func (b *bench) line(x *box) string {
	b.Helper()
	type got struct {
		s   string
		err error
	}
	c := make(chan got, 1)
	go func() { s, err := x.out.ReadString('\n'); c <- got{s, err} }()
	select {
	case g := <-c:
		if g.err != nil && (!errors.Is(g.err, io.EOF) || g.s == "") {
			b.Fatalf("read: %q %v", g.s, g.err)
		}
		return strings.TrimSpace(g.s)
	case <-time.After(ctrdtest.Patience):
		b.Fatal("no line")
		return ""
	}
}

func (b *bench) exit(x *box) uint32 {
	b.Helper()
	select {
	case st := <-x.exited:
		code, _, err := st.Result()
		if err != nil {
			b.Fatal(err)
		}
		return code
	case <-time.After(ctrdtest.Patience):
		b.Fatal("no exit")
		return 0
	}
}

func (b *bench) status(x *box, want containerd.ProcessStatus) {
	b.Helper()
	st, err := x.task.Status(b.Context())
	if err != nil || st.Status != want {
		b.Fatalf("status %v, %v; want %s", st.Status, err, want)
	}
}

func TestLifeOfATask(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	x := b.create("life", "import sys\nprint('up')\nfor l in sys.stdin: print('got', l, end='')\nsys.exit(7)")
	b.status(x, containerd.Created)
	if err := x.task.Pause(ctx); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("pause of a created task: %v", err)
	}
	if err := x.task.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := x.task.Start(ctx); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("second start: %v", err)
	}
	if got := b.line(x); got != "up" {
		t.Fatalf("first line %q", got)
	}
	if _, err := x.task.Delete(ctx); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("delete of a running task: %v", err)
	}
	if err := x.task.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	b.status(x, containerd.Paused)
	fmt.Fprintln(x.in, "frozen")
	if err := x.task.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	if got := b.line(x); got != "got frozen" {
		t.Fatalf("after the thaw %q", got)
	}
	pids, err := x.task.Pids(ctx)
	if err != nil || len(pids) != 1 {
		t.Errorf("pids %v, %v", pids, err)
	}
	if _, err := x.task.Metrics(ctx); err != nil {
		t.Errorf("metrics: %v", err)
	}
	if err := x.task.CloseIO(ctx, containerd.WithStdinCloser); err != nil {
		t.Fatal(err)
	}
	_ = x.in.Close()
	if code := b.exit(x); code != 7 {
		t.Errorf("exit status %d, want 7", code)
	}
	b.status(x, containerd.Stopped)
	if err := x.task.Kill(ctx, syscall.SIGKILL); !errdefs.IsNotFound(err) {
		t.Errorf("kill of an exited task: %v", err)
	}
	st, err := x.task.Delete(ctx)
	if err != nil || st.ExitCode() != 7 {
		t.Errorf("delete: %v, %v", st, err)
	}
}

func TestExecAndUpdate(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	x := b.start("exec", "import time\nprint('up')\ntime.sleep(3600)")
	b.line(x)
	spec, err := x.Spec(ctx)
	if err != nil {
		t.Fatal(err)
	}
	p := *spec.Process
	p.Args = []string{b.ready.Python, "-I", "-c", "import os,sys; sys.exit(os.getuid() % 100)"}
	proc, err := x.task.Exec(ctx, "more", &p, cio.NullIO)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.task.Exec(ctx, "more", &p, cio.NullIO); !errdefs.IsAlreadyExists(err) {
		t.Errorf("a second exec of one id: %v", err)
	}
	done, err := proc.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := proc.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if code := (<-done).ExitCode(); code != runtime.GuestID%100 {
		t.Errorf("exec status %d", code)
	}
	if _, err := proc.Delete(ctx); err != nil {
		t.Error(err)
	}
	limit := int64(64)
	if err := x.task.Update(ctx, containerd.WithResources(&specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &limit}})); err != nil {
		t.Errorf("update: %v", err)
	}
	if err := x.task.Kill(ctx, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := b.exit(x); code != 137 {
		t.Errorf("exit status %d, want 137", code)
	}
}

// Events of one task come in the order in which things happened, an out-of-memory kill before the exit it caused.
func TestEventsInOrder(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, errs := b.c.Subscribe(ctx, "namespace=="+ctrd.Namespace+",topic~=^/tasks/")
	small := func(s *specs.Spec) { *s.Linux.Resources.Memory.Limit = 24 << 20 }
	x := b.start("oom", "b=[]\nwhile True: b.append(bytearray(1<<20))", small)
	b.exit(x)
	if _, err := x.task.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	want := []string{"create", "start", "oom", "exit", "delete"}
	var got []string
	timeout := time.After(ctrdtest.Patience)
	for len(got) == 0 || got[len(got)-1] != "delete" {
		select {
		case e := <-stream:
			v, err := typeurl.UnmarshalAny(e.Event)
			if err != nil {
				t.Fatal(err)
			}
			switch v.(type) {
			case *events.TaskCreate:
				got = append(got, "create")
			case *events.TaskStart:
				got = append(got, "start")
			case *events.TaskOOM:
				if got[len(got)-1] != "oom" { // the kernel may kill more than once
					got = append(got, "oom")
				}
			case *events.TaskExit:
				got = append(got, "exit")
			case *events.TaskDelete:
				got = append(got, "delete")
			}
		case err := <-errs:
			t.Fatal(err)
		case <-timeout:
			t.Fatalf("events %v, want %v", got, want)
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("events %v, want %v", got, want)
	}
}

// shim is the process that serves a container; those of earlier tests may still be ending.
func (b *bench) shim(id string) ctrdtest.Process {
	b.Helper()
	tree, err := b.e.Tree()
	if err != nil {
		b.Fatal(err)
	}
	i := slices.IndexFunc(tree, func(p ctrdtest.Process) bool {
		return p.Is("containerd-shim-thawpool-v1") && slices.Contains(p.Args, id)
	})
	if i < 0 {
		b.Fatalf("no shim of %s among %v", id, tree)
	}
	return tree[i]
}

// A shim that is killed takes its container with it, frozen or not: containerd has the runtime clean up at once.
func TestLostShim(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	x := b.start("lost", "import time\nprint('up')\ntime.sleep(3600)")
	b.line(x)
	if err := x.task.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	lost := b.shim("lost")
	if err := syscall.Kill(lost.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctrdtest.Await(t, "the task is gone", func() error {
		if _, err := x.Task(ctx, nil); errdefs.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		return errors.New("still there")
	})
	x.task = nil
	group := b.e.Group("lost")
	ctrdtest.Await(t, "its processes and control group are gone", func() error {
		if _, err := group.MemoryLimit(); !errors.Is(err, fs.ErrNotExist) {
			pids, _ := group.Procs()
			return fmt.Errorf("processes %v, and its limit reads %w", pids, err)
		}
		return nil
	})
}
