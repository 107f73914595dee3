//go:build integration

package endtoend

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

const (
	// recovery is how long a fault may keep the next call from working, and what it leaves from being cleared up.
	recovery = 15 * time.Second
	// answered is how long the calls that were there may take to be answered. Their own timeout is 5 s.
	answered = 30 * time.Second
	// stopped is how long thawpool serve, and a whole tree, are stopped: nobody else can let them go on.
	stopped = 2 * time.Second
	// poolSize is how many sandboxes are frozen when a fault comes.
	poolSize = 3
)

// allFaultsEnv runs every cell; without it those run that differ.
const allFaultsEnv = "THAWPOOL_FAULTS"

// The stages of a process, beside those of the sandboxes in it.
const (
	procStarting = "starting"
	procFilling  = "filling"
	procServing  = "serving"
	procStopping = "stopping"
)

// TestFaultSignals kills or stops each part at each stage. Whatever happens, every call is answered or its process is
// gone, the next call works, and nothing is left.
func TestFaultSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		for _, part := range parts {
			for _, stage := range []string{procServing, procStarting, procFilling, procStopping} {
				if !chosen(sig, part, stage) {
					continue
				}
				name := map[syscall.Signal]string{syscall.SIGKILL: "kill", syscall.SIGSTOP: "stop"}[sig] + " " + part
				t.Run(name+"/"+stage, func(t *testing.T) { signalAt(t, name, sig, part, stage) })
			}
		}
	}
}

// chosen tells whether a cell is run. All of them take minutes.
func chosen(sig syscall.Signal, part, stage string) bool {
	if os.Getenv(allFaultsEnv) == "all" {
		return true
	}
	if stage == procServing {
		return sig == syscall.SIGKILL || part != partRootlesskit && part != partChild && part != partKeeper
	}
	if sig == syscall.SIGSTOP {
		return false
	}
	switch stage {
	case procStarting:
		return part == partContainerd || part == partServe
	case procFilling:
		return part == partShim || part == partRunner
	default:
		return part == partContainerd || part == partServe || part == partShim
	}
}

func signalAt(t *testing.T, name string, sig syscall.Signal, part, stage string) {
	e, base := env(t)
	if stage == procStarting {
		e.Stop(t)
	}
	sc, hit := reach(t, e, part, stage)
	pids := hit()
	t.Cleanup(func() { goOn(pids) })
	began := time.Now()
	if err := signalAll(pids, sig); err != nil {
		t.Fatal(err)
	}
	if stage == procServing {
		sc.release()
	}
	if part == partServe && sig == syscall.SIGSTOP {
		time.Sleep(stopped) // what it does not do while it is stopped cannot be waited for
		goOn(pids)
		began = time.Now()
	}
	sc.settle(report{fault: name, stage: stage, began: began, base: base, gauge: sc.gauge, killed: part == partServe && sig == syscall.SIGKILL})
}

// reach brings a new server to a stage, and gives what finds the processes to hit then.
func reach(t *testing.T, e *ctrdtest.Env, part, stage string) (sc *scene, hit func() []int) {
	t.Helper()
	size := poolSize
	if stage == procFilling {
		size = 8
	}
	sc = newScene(t, e, "--pool-size", fmt.Sprint(size))
	sc.s.open()
	hit = func() []int { return sc.await(part) }
	switch stage {
	case procStarting:
		sc.call(stageCalling, callingCode)
		if part == partServe {
			sc.await(partContainerd)
		}
		sc.goNote()
	case procFilling:
		sc.call(stageCalling, callingCode)
		sc.awaitEvents("lease", 1)
		sc.goNote()
	case procServing:
		sc.warm(size)
		sc.allStages(size)
		pids := sc.await(part)
		hit = func() []int { return pids }
	case procStopping:
		sc.awaitFrozen(size)
		sc.call(stageRunning, runningCode)
		sc.awaitNote("running")
		sc.call(stageCalling, callingCode)
		sc.awaitNote("calling")
		sc.goNote()
		pids := sc.await(part)
		hit = func() []int { _ = sc.s.in.Close(); return pids }
	}
	return sc, hit
}

// report is what is known of a fault before anybody has dealt with it.
type report struct {
	fault, stage string
	began        time.Time
	base         ctrdtest.Leaks // before the server was started
	gauge        gauge
	killed       bool // the fault was the server's own end
}

// settle sees to it that the invariants hold, and prints the row of the table.
func (sc *scene) settle(r report) {
	t := sc.t
	t.Helper()
	ends := r.killed || r.stage == procStopping
	if !ends {
		sc.call(stageNext, nextCode)
	}
	gone, err := sc.answers(answered)
	switch {
	case err != nil:
		t.Error(err)
	case gone && !ends:
		t.Error("thawpool serve has ended by itself")
	}
	worked := sc.worked
	if ends || gone {
		sc.awaitExit(r)
		worked = sc.startAgain()
	} else {
		if err := sc.calm(r.gauge, recovery); err != nil {
			t.Error(err)
		}
		sc.s.close()
	}
	took := worked.Sub(r.began)
	if err := inTime(r.began, worked); err != nil {
		t.Error(err)
	}
	clean := requireClean(t, sc.e, r.base)
	all := sc.outcomes()
	var row []string
	for _, stage := range slices.Sorted(maps.Keys(all)) {
		row = append(row, stage+": "+all[stage])
	}
	t.Logf("fault | %s | %s | %s | %.1f s | %s", r.fault, r.stage, strings.Join(row, ", "), took.Seconds(), clean)
}

// inTime tells whether the next call has worked soon enough after a fault.
func inTime(began, worked time.Time) error {
	if worked.IsZero() {
		return errors.New("the next call has not worked")
	}
	if took := worked.Sub(began); took > recovery {
		return fmt.Errorf("the next call worked %v after the fault", took)
	}
	return nil
}

// startAgain has another server make a call, and tells when that worked.
func (sc *scene) startAgain() time.Time {
	sc.t.Helper()
	next := &scene{t: sc.t, e: sc.e, dir: sc.dir, stage: map[int]string{}, got: map[int]actors.Result{}}
	next.s = serve(sc.t, sc.e, sc.args...).open()
	next.call(stageNext, nextCode)
	if gone, err := next.answers(answered); err != nil || gone {
		sc.t.Errorf("the next server: has ended %v, %v", gone, err)
		return time.Time{}
	}
	next.s.close()
	return next.worked
}

// awaitExit waits for the end of a server that was killed or told to stop.
func (sc *scene) awaitExit(r report) {
	sc.t.Helper()
	select {
	case err := <-sc.s.ended:
		if err != nil && !r.killed {
			sc.t.Errorf("thawpool serve ended with %v", err)
		}
	case <-time.After(recovery):
		sc.t.Error("thawpool serve does not end")
	}
}

// requireClean waits until nothing is there that was not before, and tells how long that took.
func requireClean(t *testing.T, e *ctrdtest.Env, base ctrdtest.Leaks) string {
	t.Helper()
	took, err := clean(e, base, recovery)
	if err != nil {
		t.Error(err)
		return "leaks"
	}
	return fmt.Sprintf("clean after %.1f s", took.Seconds())
}

// clean waits until nothing is there that was not before.
func clean(e *ctrdtest.Env, base ctrdtest.Leaks, patience time.Duration) (time.Duration, error) {
	began := time.Now()
	for {
		left, err := e.Count()
		if err == nil {
			if left = left.Minus(base); len(left) == 0 {
				return time.Since(began), nil
			}
			err = errors.New(left.String())
		}
		if time.Since(began) > patience {
			return 0, fmt.Errorf("left after %v: %w", patience, err)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}
