//go:build integration

package ctrd_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
)

// neighbourCode uses a little of everything. Its answer is always the same.
const neighbourCode = `
import os, threading
found = []
t = threading.Thread(target=lambda: found.append(sum(i * i for i in range(100_000)))); t.start(); t.join()
r, w = os.pipe()
if os.fork() == 0:
    os.write(w, b"child"); os._exit(0)
os.wait()
with open("/tmp/x", "w") as f: f.write("x" * 1_000_000)
print(found[0], os.read(r, 9).decode(), os.path.getsize("/tmp/x"))
`

const neighbourAnswer = "333328333350000 child 1000000\n"

// hostileRuns are what a run may do to its neighbours within its limits. Each says that it has begun, and never ends.
var hostileRuns = []struct{ name, code string }{
	{"nobody", ""},
	{"100 busy processes", `
import os
print("begun", flush=True)
for _ in range(100):
    if os.fork() == 0: break
while True: pass`},
	{"a fork bomb", `
import os, time
print("begun", flush=True)
def bomb():
    while True:
        try:
            if os.fork() == 0: bomb()
        except OSError: time.sleep(0)
bomb()`},
	{"memory taken and given back", `
import mmap
print("begun", flush=True)
while True:
    m = mmap.mmap(-1, 400 << 20)
    for i in range(0, len(m), 4096): m[i] = 1
    m.close()`},
	{"files written and removed", `
import os
print("begun", flush=True)
while True:
    for name in ("/tmp/f", "/dev/shm/f", "/workspace/f"):
        try:
            with open(name, "wb") as f:
                for _ in range(60): f.write(bytes(1 << 20))
        except OSError: pass
        os.unlink(name)
    os.sync()`},
	{"counters of the user used up", `
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
for _ in range(8):
    if os.fork() == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 64))
        held = [libc.inotify_init() for _ in range(500)] + [os.pipe() for _ in range(200)]
        while libc.sigqueue(os.getpid(), 40, None) == 0: pass
        signal.pause()
print("begun", flush=True)
while True: time.sleep(1)`},
}

// neighbours is how many runs are answered beside each hostile one; docs/security.md was measured with more.
var neighbours = flag.Int("neighbours", 3, "runs beside each hostile one")

// TestNeighbourIsAnswered: whatever a run does within its limits, runs beside it get their right answers. How long they
// take is told, not judged.
func TestNeighbourIsAnswered(t *testing.T) {
	e, base := env(t)
	t.Cleanup(func() { e.RequireNone(t, base) })
	rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = ctrd.RuntimeThawpool })
	for i, h := range hostileRuns {
		t.Run(h.name, func(t *testing.T) {
			var boxes []runtime.Sandbox
			for n := range *neighbours {
				boxes = append(boxes, ctrdtest.Boot(t, rt, fmt.Sprintf("neighbour-%d-%d", i, n)))
			}
			hostile := ctrdtest.Boot(t, rt, fmt.Sprintf("hostile-%d", i))
			if h.code != "" {
				begin(t, hostile, h.code)
			}
			var took []time.Duration
			for _, sb := range boxes {
				began := time.Now()
				if got := must(t, sb, neighbourCode); got != neighbourAnswer {
					t.Errorf("a neighbour answers %q", got)
				}
				took = append(took, time.Since(began).Round(time.Millisecond/10))
			}
			select {
			case <-hostile.Done():
				t.Error("the hostile run has ended, so this shows nothing")
			default:
			}
			slices.Sort(took)
			t.Logf("beside %s: median %v, slowest %v", h.name, took[len(took)/2], took[len(took)-1])
		})
	}
}

// begin starts code that never ends, and waits for its first words.
func begin(t *testing.T, sb runtime.Sandbox, code string) {
	t.Helper()
	if err := sb.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := guest.NewWriter(sb.Stream()).Run(guest.Run{ID: "h", Code: code, ValueMax: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	if f, err := guest.NewReader(sb.Stream()).Next(); err != nil || string(f.Data) != "begun\n" {
		t.Fatalf("the hostile run says %s %q %+v, %v", f.Kind, f.Data, f.Error, err)
	}
}
