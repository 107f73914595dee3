//go:build integration

package endtoend

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// The stages of a sandbox, as a scene has them when a fault comes. At that moment one more is booting, and one is being
// destroyed.
const (
	stageFrozen    = "frozen"
	stageLeased    = "leased" // thawed, and its processes have not gone on yet
	stageRunning   = "running"
	stageCalling   = "calling an upstream"
	stageAnswering = "answering" // the answer is on its way and nobody reads it
	stageDestroyed = "being destroyed"
	stageNext      = "next" // made after the fault, until one works
)

// The code of the calls that a scene makes.
const (
	runningCode   = "await mcp_abacus.note(name='running')\nimport time\ntime.sleep(3)\nprint('ran')"
	callingCode   = "print(await mcp_abacus.hold(name='calling'))"
	leasedCode    = "print('leased')"
	answeringCode = "print('a' * 600_000)"
	destroyedCode = "print('short')"
	nextCode      = "print('next')"
)

// wantOut is what they print.
var wantOut = map[string]string{
	stageRunning: "ran\n", stageCalling: "held\n", stageLeased: "leased\n",
	stageAnswering: strings.Repeat("a", 600_000) + "\n", stageDestroyed: "short\n", stageNext: "next\n",
}

// scene is a server with calls in it, and what became of them.
type scene struct {
	t     *testing.T
	e     *ctrdtest.Env
	s     *server
	dir   string
	args  []string
	stage map[int]string // of the calls that were sent
	got   map[int]actors.Result
	boxes map[string]string // the sandboxes of stages

	ids    int       // of calls that are answered at once
	gauge  gauge     // what the server holds when nothing is to do
	worked time.Time // when the next call had worked
}

// newScene starts a server. Its directory is short enough for a socket.
func newScene(t *testing.T, e *ctrdtest.Env, args ...string) *scene {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "tpf-") //nolint:usetesting // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sc := &scene{t: t, e: e, dir: dir, stage: map[int]string{}, got: map[int]actors.Result{}, boxes: map[string]string{}}
	file := defineServer(t, dir, map[string]string{upstreamEnv: "1", notesEnv: dir})
	sc.args = append([]string{
		"--servers-config", file, "--listen", "unix:" + sc.socket(), "--timeout", "5", "--output-max", "1m",
		"--pool-max", "16", "--pool-refill", "2",
	}, args...)
	sc.s = serve(t, e, sc.args...)
	return sc
}

func (sc *scene) socket() string { return filepath.Join(sc.dir, "ops") }

// call sends a call that stands for a stage.
func (sc *scene) call(stage, code string) {
	sc.t.Helper()
	id := len(sc.stage) + 1
	sc.stage[id] = stage
	sc.s.call(id, code)
}

// allStages brings one sandbox into every stage. The last call has just ended when it returns, so that its sandbox is
// being destroyed and its successor boots.
func (sc *scene) allStages(size int) {
	sc.t.Helper()
	sc.awaitFrozen(size)
	sc.call(stageRunning, runningCode)
	sc.awaitNote("running")
	sc.call(stageCalling, callingCode)
	sc.awaitNote("calling")
	sc.lease(size)
	sc.s.gate.Lock()
	sc.callToEnd(stageAnswering, answeringCode)
	sc.callToEnd(stageDestroyed, destroyedCode)
}

// callToEnd makes a call and waits until it has ended, though nobody reads its answer.
func (sc *scene) callToEnd(stage, code string) {
	sc.t.Helper()
	before := len(sc.events("lease"))
	sc.call(stage, code)
	sc.awaitEvents("lease", before+1)
	lease := sc.events("lease")[before]
	sc.boxes[stage] = lease.Sandbox
	sc.soon(stage, func() bool {
		return slices.ContainsFunc(sc.events("done"), func(e event) bool { return e.Request == lease.Request })
	})
}

// release lets everything go on that the scene holds up.
func (sc *scene) release() {
	sc.t.Helper()
	sc.goNote()
	sc.s.gate.Unlock()
	for until := time.Now().Add(leaseHeld); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if pids, err := sc.e.Group(sc.boxes[stageLeased]).Procs(); err == nil && len(pids) == 0 {
			return
		}
	}
	sc.signal(sc.boxes[stageLeased], syscall.SIGCONT)
}

// leaseHeld is how long the leased sandbox stays as it is after a fault that may have ended it.
const leaseHeld = time.Second

// goNote lets every hold go on.
func (sc *scene) goNote() {
	sc.t.Helper()
	if err := os.WriteFile(filepath.Join(sc.dir, goNote), nil, 0o600); err != nil {
		sc.t.Fatal(err)
	}
}

// lease has a sandbox leased whose processes stop as soon as they are thawed. SIGSTOP waits while they are frozen, and
// SIGCONT takes it back from those that stay so.
func (sc *scene) lease(size int) {
	sc.t.Helper()
	frozen := sc.awaitFrozen(size)
	for _, id := range frozen {
		sc.signal(id, syscall.SIGSTOP)
	}
	thawed := len(sc.events("thaw"))
	sc.call(stageLeased, leasedCode)
	sc.awaitEvents("thaw", thawed+1)
	sc.boxes[stageLeased] = sc.events("thaw")[thawed].Sandbox
	for _, id := range frozen {
		if id != sc.boxes[stageLeased] {
			sc.signal(id, syscall.SIGCONT)
		}
	}
}

// signal reaches every process of a sandbox that there is.
func (sc *scene) signal(sandbox string, sig syscall.Signal) {
	sc.t.Helper()
	if sandbox == "" {
		return
	}
	pids, err := sc.e.Group(sandbox).Procs()
	if err != nil {
		sc.t.Fatal(err)
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, sig) // one that has gone meanwhile is as good
	}
}

// frozen are the sandboxes of this scene's state that wait in a pool.
func (sc *scene) frozen() ([]string, error) {
	now, err := sc.e.Count()
	if err != nil {
		return nil, err
	}
	var frozen []string
	for _, id := range now[ctrdtest.Cgroups] {
		if is, err := sc.e.Group(id).Frozen(); err == nil && is && !slices.Contains(sc.leased(), id) {
			frozen = append(frozen, id)
		}
	}
	return frozen, nil
}

// leased are the sandboxes that calls have had.
func (sc *scene) leased() []string {
	var ids []string
	for _, e := range sc.events("lease") {
		ids = append(ids, e.Sandbox)
	}
	return ids
}

func (sc *scene) awaitFrozen(size int) (frozen []string) {
	sc.t.Helper()
	ctrdtest.Await(sc.t, fmt.Sprintf("%d sandboxes are frozen", size), func() (err error) {
		if frozen, err = sc.frozen(); err == nil && len(frozen) != size {
			err = fmt.Errorf("frozen are %v", frozen)
		}
		return err
	})
	return frozen
}

func (sc *scene) awaitNote(name string) {
	sc.t.Helper()
	ctrdtest.Await(sc.t, "code notes that it is "+name, func() error {
		_, err := os.Lstat(filepath.Join(sc.dir, name))
		return err
	})
}

// event is a line of the log.
type event struct{ Event, Sandbox, Request, Status string }

// events are the lines of a kind that the server has logged.
func (sc *scene) events(kind string) []event {
	var all []event
	for line := range strings.Lines(sc.s.log.String()) {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == kind {
			all = append(all, e)
		}
	}
	return all
}

func (sc *scene) awaitEvents(kind string, n int) {
	sc.t.Helper()
	sc.soon(fmt.Sprintf("%d events %q", n, kind), func() bool { return len(sc.events(kind)) >= n })
}

// soon waits for what a fault must not come long after.
func (sc *scene) soon(what string, is func() bool) {
	sc.t.Helper()
	for deadline := time.Now().Add(ctrdtest.Patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			sc.t.Fatalf("%s: not after %v", what, ctrdtest.Patience)
		}
	}
}

// answers takes in answers until every call has one, and tells whether the server has ended before.
func (sc *scene) answers(patience time.Duration) (gone bool, err error) {
	sc.t.Helper()
	late := time.After(patience)
	for len(sc.got) < len(sc.stage) {
		select {
		case line, ok := <-sc.s.lines:
			if !ok {
				return true, nil
			}
			if err := sc.take(sc.s.parse(line)); err != nil {
				return false, err
			}
		case <-late:
			return false, fmt.Errorf("no answer to all of %v after %v, only %v", sc.stage, patience, sc.got)
		}
	}
	return false, nil
}

// take checks an answer: it is to a call, the first one, and says what that call says when it succeeds.
func (sc *scene) take(a answer) error {
	id, ok := a.ID.(float64)
	stage, sent := sc.stage[int(id)]
	_, twice := sc.got[int(id)]
	res := a.Result.Structured
	switch {
	case a.Method != "":
		return nil
	case !ok || !sent || twice || a.Error != nil:
		return fmt.Errorf("an answer to nothing that waits: %+v", a)
	case res.Status == actors.StatusSuccess && res.Stdout != wantOut[stage]:
		return fmt.Errorf("%s printed %.100q", stage, res.Stdout)
	}
	sc.got[int(id)] = res
	switch {
	case stage == stageNext && res.Status == actors.StatusSuccess:
		sc.worked = time.Now()
	case stage == stageNext:
		time.Sleep(100 * time.Millisecond)
		sc.call(stageNext, nextCode) // as an agent that tries again
	}
	return nil
}

// outcomes are the ends of the calls, by stage.
func (sc *scene) outcomes() map[string]string {
	counts := map[string]map[string]int{}
	for id, stage := range sc.stage {
		if stage == stageNext {
			continue
		}
		end := "process gone"
		if res, ok := sc.got[id]; ok {
			end = string(res.Status)
		}
		if counts[stage] == nil {
			counts[stage] = map[string]int{}
		}
		counts[stage][end]++
	}
	all := map[string]string{}
	for stage, ends := range counts {
		var texts []string
		for _, end := range slices.Sorted(maps.Keys(ends)) {
			text := end
			if n := ends[end]; n > 1 {
				text = fmt.Sprintf("%d %s", n, end)
			}
			texts = append(texts, text)
		}
		all[stage] = strings.Join(texts, ", ")
	}
	return all
}
