// Package runtime says what a sandbox is: the interfaces that the actors use, the limits a sandbox lives under, and
// the closed set of errors that crosses this boundary. It knows nothing of MCP, and nothing of actors.
//
// The rooms below it hold the parts: ctrd implements both interfaces on containerd, daemon keeps the private rootless
// containerd, image makes and imports root filesystems, guest is what runs inside, host reads and prepares cgroups and
// user namespaces, inspect tells how a sandbox is confined, shim is our own containerd shim, fake is a sandbox in memory
// for tests.
package runtime

import (
	"context"
	"io"
	"time"
)

// Runtime boots sandboxes of one profile. It is safe for concurrent use.
type Runtime interface {
	// Boot creates a sandbox, waits until its runner has said ready, and freezes it. The returned sandbox is owned by
	// the caller, who must Destroy it. On an error nothing is left behind. id is unique for ever, at most 64 bytes of
	// [a-z0-9-], and is the container id.
	Boot(ctx context.Context, id string) (Sandbox, error)
	// Close ends the runtime's own connections. Sandboxes that were booted must be destroyed before.
	Close() error
}

// Sandbox is one frozen, then thawed, then destroyed container with a Python runner as its first process. It serves one
// run and is never frozen again. Done, Usage and Destroy are safe for concurrent use; the rest belongs to the one
// session that leased it.
type Sandbox interface {
	ID() string
	// Boot tells how the sandbox came to be.
	Boot() BootInfo
	// Thaw lets the frozen processes run. It fails with ErrLost when the sandbox died while it was frozen.
	Thaw(ctx context.Context) error
	// Stream is the frame channel to the runner (package guest), already past its ready frame. Reads end with io.EOF
	// when the runner has gone. Destroy closes it, which also ends a blocked Read or Write. The first write does not
	// wait for the thaw when it is of at most EarlyMax bytes: it lies ready for the runner then.
	Stream() io.ReadWriter
	// Withdraw takes back what was written to Stream if nothing of it has been read, and tells whether it did: then
	// nothing inside has seen any of it, and nothing ever will. It must not meet a Write.
	Withdraw() bool
	// Done is closed once the first process has gone, by itself or by force.
	Done() <-chan struct{}
	// Usage reads what the kernel has counted for the whole sandbox so far. It works until Destroy has returned, and
	// after Done.
	Usage() (Usage, error)
	// Destroy kills every process and removes every trace: task, container, cgroup, FIFOs. It may be called in any
	// state, again, and at the same time as anything else; each call returns when the sandbox is gone, or with the
	// error that keeps it.
	Destroy(ctx context.Context) error
}

// EarlyMax is how many bytes can be written to a frozen sandbox: PIPE_BUF of Linux, which an empty pipe always takes.
const EarlyMax = 4096

// BootInfo is what booting a sandbox took and found.
type BootInfo struct {
	At     time.Time     // when it became ready and frozen
	Took   time.Duration // from the call of Boot to frozen
	Python string        // the version that the runner reports, for example "3.14.6"
}

// Usage is the kernel's own count for one sandbox.
type Usage struct {
	CPU        time.Duration // user and system time of all its processes, boot included
	MemoryPeak int64         // bytes, the highest charge so far, page cache and tmpfs included
	OOMKills   int64         // processes the kernel killed for this sandbox's memory limit
}
