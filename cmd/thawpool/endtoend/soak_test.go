//go:build integration

package endtoend

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

const (
	soakEnv     = "THAWPOOL_SOAK"      // how long it takes
	soakSeedEnv = "THAWPOOL_SOAK_SEED" // what repeats its choices
	soakShort   = 35 * time.Second     // without soakEnv
	soakAgents  = 3
	// A round has a storm of faults, time to recover, and calm in which every call must end as it should.
	roundTime  = time.Minute
	stormShare = 0.35
)

// soak is several agents of one user, and what is done to them.
type soak struct {
	t      *testing.T
	e      *ctrdtest.Env
	agents []*agent
	memory *memory

	faults    atomic.Int64 // so far
	lastFault atomic.Int64 // nanoseconds since began
	began     time.Time

	mu      sync.Mutex // guards what follows
	stopped []int      // processes that may have to be let go on
	counts  map[string]int
}

// TestSoak has several servers of one user do mixed calls at changing concurrency, breaks parts at random, checks every
// answer, and in the end that nothing is left and that nothing has grown.
func TestSoak(t *testing.T) {
	length, seed := soakLength(t)
	t.Logf("soak of %v, seed %d (repeat it with %s=%d)", length, seed, soakSeedEnv, seed)
	e, base := env(t)
	s := &soak{t: t, e: e, began: time.Now(), counts: map[string]int{}, memory: newMemory()}
	s.lastFault.Store(-int64(recovery))
	t.Cleanup(func() { goOn(s.stopped) })
	for i := range soakAgents {
		s.agents = append(s.agents, newAgent(s, i))
	}
	end := s.began.Add(length)
	var work sync.WaitGroup
	for i, a := range s.agents {
		work.Go(func() { a.work(rand.New(rand.NewPCG(seed, uint64(i)+1)), end) })
	}
	quit := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { s.storms(rand.New(rand.NewPCG(seed, 0)), end) })
	watch.Go(func() { s.sample(quit) })
	work.Wait()
	close(quit)
	watch.Wait()
	goOn(s.stopped)
	for _, a := range s.agents {
		a.close()
	}
	clean := requireClean(t, e, base)
	s.report(length, clean)
}

func soakLength(t *testing.T) (length time.Duration, seed uint64) {
	t.Helper()
	length, seed = soakShort, uint64(time.Now().UnixNano())
	if v := os.Getenv(soakEnv); v != "" {
		var err error
		if length, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv(soakSeedEnv); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return length, seed
}

// storms makes faults come in rounds, none in the last part of each. In the second half the daemon and the servers are
// left alive, so that their memory can be followed.
func (s *soak) storms(rng *rand.Rand, end time.Time) {
	length := end.Sub(s.began)
	round := min(roundTime, length)
	for {
		at := time.Since(s.began)
		switch into := at % round; {
		case at >= length:
			return
		case into.Seconds() > stormShare*round.Seconds() || length-at < round/2:
			time.Sleep(100 * time.Millisecond)
		default:
			s.fault(rng, at > length/2 && length > 2*roundTime)
			time.Sleep(time.Duration(300+rng.IntN(3000)) * time.Millisecond) // how long the next fault lets wait
		}
	}
}

// gentle are faults that end neither a daemon nor a server.
var gentle = []string{partShim, partRunner, partUpstream, partGuard}

// fault breaks one part of one agent's system.
func (s *soak) fault(rng *rand.Rand, gently bool) {
	part := parts[rng.IntN(len(parts))]
	if gently {
		part = gentle[rng.IntN(len(gentle))]
	}
	sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP}[rng.IntN(2)]
	a := s.agents[rng.IntN(len(s.agents))]
	pids, err := a.find(part, rng)
	if err != nil || len(pids) == 0 {
		return // it is just being replaced
	}
	pid := pids[rng.IntN(len(pids))]
	s.mark()
	if syscall.Kill(pid, sig) != nil {
		return
	}
	s.count(fmt.Sprintf("fault %v %s", sig, part))
	if sig != syscall.SIGSTOP {
		return
	}
	s.mu.Lock()
	s.stopped = append(s.stopped, pid)
	s.mu.Unlock()
	if part == partServe || part == partUpstream || part == partRunner {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		goOn([]int{pid})
		s.mark()
	}
}

// mark notes that there is a fault now.
func (s *soak) mark() {
	s.faults.Add(1)
	s.lastFault.Store(int64(time.Since(s.began)))
}

// calm tells that no fault can be the cause of anything that happens now, with a mark to compare after it.
func (s *soak) calm() (mark int64, calm bool) {
	mark = s.faults.Load()
	return mark, time.Since(s.began)-time.Duration(s.lastFault.Load()) > recovery
}

func (s *soak) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// sample follows the memory of everything that lives long.
func (s *soak) sample(quit <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		now := time.Since(s.began)
		for i, a := range s.agents {
			s.memory.add(fmt.Sprintf("%s %d", partServe, i+1), a.pid(), now)
		}
		if owner, ok := s.e.Keeper(); ok {
			s.memory.add(partKeeper, owner.PID, now)
		}
		tree, err := s.e.Tree()
		if err != nil {
			continue
		}
		for _, p := range tree {
			if p.Is("containerd") {
				s.memory.add(partContainerd, p.PID, now)
			}
		}
	}
}
