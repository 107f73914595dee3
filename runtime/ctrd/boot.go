package ctrd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/guest"
	"github.com/thawpool/thawpool/runtime/host"
)

// maxReady bounds the ready frame in bytes: a version number and a short text.
const maxReady = 4 << 10

// boot makes a sandbox and freezes it. On an error nothing of it is left, or the removal goes on in the background.
func (s *session) boot(ctx context.Context, id string) (_ *sandbox, err error) {
	began := time.Now()
	ctx, end := s.bound(ctx)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.BootTimeout)
	defer cancel()
	b := &sandbox{s: s, id: id, group: s.group(id), done: make(chan struct{})}
	if b.shim, err = s.shims.take(ctx); err != nil {
		return nil, err
	}
	b.joined = sync.OnceFunc(b.shim.joins.RUnlock)
	defer func() {
		b.joined()
		if err != nil {
			err = b.abandon(ctx, expired(ctx, kind(err)))
		}
	}()
	event := s.cfg.Log.Debug().Str("sandbox", id)
	for _, step := range b.steps() {
		t := time.Now()
		if err := b.take(ctx, step); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		event = event.Dur(step.name, time.Since(t))
	}
	b.info.At = time.Now()
	b.info.Took = b.info.At.Sub(began)
	event.Dur("took", b.info.Took).Msg("booted")
	return b, nil
}

// step is one of a boot.
type step struct {
	name string
	do   func(context.Context) error
	// prompt: a shim has to answer it, and takes milliseconds. Other steps have no limit of their own.
	prompt bool
	// whole: it is seen through when the boot is broken off meanwhile. What containerd is making when its caller goes, it
	// may leave: the program that starts a shim is killed, and the shim that it has started is not.
	whole bool
}

func (b *sandbox) steps() []step {
	return []step{
		{name: "record", do: b.record},
		{name: "FIFOs", do: b.makeFIFOs},
		{name: "create", do: b.create, prompt: true, whole: true},
		{name: "limits", do: b.checkLimits},
		{name: "start", do: b.start, prompt: true},
		{name: "ready", do: b.ready},
		{name: "freeze", do: b.freeze, prompt: !b.direct()},
		{name: "weight", do: b.weigh},
	}
}

// take does a step of a boot, as long as there is patience with the shim.
func (b *sandbox) take(ctx context.Context, s step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.whole {
		var end context.CancelFunc
		ctx, end = b.s.bound(context.WithoutCancel(ctx))
		defer end()
	}
	do := func(ctx context.Context) error { return b.attempt(ctx, s.do) }
	if s.prompt {
		return b.s.shims.askPrompt(ctx, b.shim, do)
	}
	return b.s.shims.ask(ctx, b.shim, b.s.cfg.BootTimeout, do)
}

// attempt does a step of a boot. Processes of the sandbox that somebody has stopped would keep it waiting; those of other
// runtimes may be stopped as a rule, as gVisor's are that it runs by ptrace.
func (b *sandbox) attempt(ctx context.Context, do func(context.Context) error) error {
	stopped := func() bool {
		if c := b.s.cfg; c.Runtime != RuntimeThawpool && c.Runtime != RuntimeRunc {
			return false
		}
		pids, err := b.group.Procs()
		return err == nil && slices.ContainsFunc(pids, host.Stopped)
	}
	hangs, err := patiently(ctx, b.s.cfg.BootTimeout, stopped, do)
	if hangs {
		err = fmt.Errorf("%w: its process was stopped: %w", runtime.ErrUnavailable, err)
	}
	return err
}

// abandonPatience is how long a failed boot waits for its own removal, which goes on without it.
const abandonPatience = 5 * time.Second

// abandon removes what a failed boot has made, and says why it failed.
func (b *sandbox) abandon(ctx context.Context, err error) error {
	if err = b.explain(err); !errors.Is(err, runtime.ErrImage) {
		b.s.shims.breaks(b.shim)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonPatience)
	defer cancel()
	if left := b.Destroy(ctx); left != nil {
		b.s.cfg.Log.Warn().Err(left).Str("sandbox", b.id).Msg("a failed boot is left to the sweep")
	}
	return err
}

// explainPatience is how long a dying runner's exit status is waited for.
const explainPatience = time.Second

// explain adds what the runner said last to an error that its end has caused.
func (b *sandbox) explain(err error) error {
	if b.s.ctx.Err() != nil {
		return fmt.Errorf("%w: containerd was lost: %w", runtime.ErrUnavailable, err)
	}
	if !errors.Is(err, io.EOF) || b.io == nil {
		if b.io != nil {
			if words := b.io.lastWords(); words != "" {
				return fmt.Errorf("%w; the runner said: %s", err, words)
			}
		}
		return err
	}
	select {
	case <-b.done:
	case <-time.After(explainPatience):
	}
	words := b.io.lastWords()
	if words == "" {
		words = "it said nothing"
	}
	err = fmt.Errorf("the runner ended with status %d: %s", b.status.Load(), words)
	if b.status.Load() == guest.ExitUnready {
		return fmt.Errorf("%w: %w", runtime.ErrImage, err)
	}
	return err
}

// record makes the container record: the first thing of a sandbox that others can see, and the last to go.
func (b *sandbox) record(ctx context.Context) error {
	var annotations map[string]string
	sandboxID := ""
	switch {
	case b.shim.joined:
		sandboxID = b.shim.id
	case b.s.cfg.Runtime == RuntimeRunc:
		annotations = map[string]string{groupAnnotation: b.shim.id}
	}
	spec, err := b.s.specOf(b.id, annotations)
	if err != nil {
		return err
	}
	_, err = b.s.records.Create(ctx, containers.Container{
		ID: b.id,
		Labels: map[string]string{
			host.LabelOwner: b.s.cfg.Owner.String(), LabelProfile: b.s.cfg.Profile, labelRuntime: b.s.label,
		},
		Runtime:     containers.RuntimeInfo{Name: b.s.runtime, Options: b.s.options},
		Spec:        spec,
		Snapshotter: b.s.backend.Image.Snapshotter,
		SnapshotKey: b.s.view,
		SandboxID:   sandboxID,
	})
	// Also when the answer is lost; but what has this id already is another's, and none of it must be touched.
	b.recorded = !errdefs.IsAlreadyExists(err)
	return err
}

func (b *sandbox) makeFIFOs(context.Context) (err error) {
	b.io, err = makeStdio(filepath.Join(b.s.backend.FIFODir, b.id))
	return err
}

// create makes the task: the process is there with its namespaces and limits, and waits.
func (b *sandbox) create(ctx context.Context) error {
	inside := func(name string) string { return b.s.backend.Inside(filepath.Join(b.io.dir, name)) }
	defer b.joined()
	b.s.shims.leads(b.shim, b.id)
	b.tasked = true // also when the answer is lost
	_, err := b.s.tasks.Create(ctx, &tasks.CreateTaskRequest{
		ContainerID: b.id,
		Rootfs:      b.s.rootfs,
		Stdin:       inside("in"), Stdout: inside("out"), Stderr: inside("err"),
		Options: typeurl.MarshalProto(b.s.options),
	})
	if err != nil {
		return foreign(b.s.cfg.Runtime, err)
	}
	b.watched = true
	b.s.work.Go(b.watch)
	return b.io.attach()
}

// checkLimits reads the limits back: where control groups are not delegated, a runtime may go on without any.
func (b *sandbox) checkLimits(context.Context) error {
	memory, err := b.group.MemoryLimit()
	if err == nil {
		var pids int64
		if pids, err = b.group.PIDsLimit(); err == nil && pids != b.s.cfg.Limits.PIDs {
			err = fmt.Errorf("its limit of processes is %d", pids)
		}
		// The kernel rounds down to whole pages.
		if most := b.s.cfg.Limits.Memory; err == nil && (memory > most || memory < most-1<<16) {
			err = fmt.Errorf("its memory limit is %d", memory)
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("its control group is not %s: %w", b.group.Path(), err)
	}
	return runtime.WithHint(fmt.Errorf("%w: limits do not hold: %w", runtime.ErrUnsupported, err), "run thawpool doctor")
}

func (b *sandbox) start(ctx context.Context) error {
	_, err := b.s.tasks.Start(ctx, &tasks.StartRequest{ContainerID: b.id})
	return err
}

// ready reads the runner's first frame, and nothing behind it.
func (b *sandbox) ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = b.io.out.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 0, maxReady)
	for !bytes.HasSuffix(buf, []byte("\n")) {
		if len(buf) == cap(buf) || bytes.IndexByte(buf, '\n') >= 0 {
			return fmt.Errorf("%w: no ready frame but %.80q", guest.ErrProtocol, buf)
		}
		n, err := b.io.out.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("the runner is not ready: %w", ctx.Err())
		}
		if err != nil {
			return err
		}
	}
	f, err := guest.NewReader(bytes.NewReader(buf)).Next()
	if err != nil {
		return err
	}
	if f.Kind != guest.KindReady || f.Version != guest.ProtocolVersion {
		return fmt.Errorf("%w: %s frame of version %d in place of ready %d", guest.ErrProtocol, f.Kind, f.Version, guest.ProtocolVersion)
	}
	b.info.Python = f.Python
	return nil
}

// freezeTries is how often a freeze is tried: on cgroup v1 the kernel may not settle it while the machine is busy, and
// runc gives up after some hundred looks.
const freezeTries = 5

func (b *sandbox) freeze(ctx context.Context) error {
	if b.direct() {
		return errors.Join(b.group.SetFrozen(true), b.alive())
	}
	for try := 1; ; try++ {
		_, err := b.s.tasks.Pause(ctx, &tasks.PauseTaskRequest{ContainerID: b.id})
		if err == nil {
			return b.alive()
		}
		if dead := b.alive(); dead != nil {
			return errors.Join(io.EOF, err) // explain tells why it ended
		}
		if try == freezeTries || ctx.Err() != nil {
			return err
		}
	}
}

// weigh gives a sandbox that has booted its full share of the processor.
func (b *sandbox) weigh(context.Context) error { return b.group.SetCPUWeight(runtime.RunWeight) }
