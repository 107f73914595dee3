package pool

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Workload is what a simulation puts a pool through. Times are means; each single one is drawn within ± Spread of it.
type Workload struct {
	Arrivals Arrivals
	Boot     time.Duration // from Boot to ready, with as many side by side as Refill allows
	Run      time.Duration // from hand-out to release
	Destroy  time.Duration // from release until the sandbox is gone
	Spread   float64       // 0 to 1: 0.2 draws each time evenly within ± 20 %
	Seed     uint64        // the same seed gives the same run
	Cold     bool          // begin with an empty pool; else with a filled one
}

// Report is how a simulated pool did.
type Report struct {
	Calls, Hits, Waits, Colds, Rejected int
	HitRate                             float64         // hits of all calls, rejected ones included; 1 when there were none
	WaitP50, WaitP90, WaitP99, WaitMax  time.Duration   // of the calls that got a sandbox, hits as 0
	Boots                               int             // sandboxes booted
	ReadyMean                           float64         // ready sandboxes, averaged over time: what the hits cost in memory
	SizeMax                             int             // the greatest Size in force, of interest with Auto
	Levels                              []Level         // the pool over time, at most maxLevels points evenly apart
	Reasons                             map[Reason]int  // of the rejected ones
	Took                                time.Duration   // simulated time until the last call had its sandbox or its no
	waits                               []time.Duration // of all that were served
}

// Level is a pool at one moment of a simulation.
type Level struct {
	At                                    time.Duration
	Ready, Booting, Leased, Waiting, Size int
}

const maxLevels = 600

// Simulate runs the workload against a pool of this configuration in simulated time.
func Simulate(cfg Config, w Workload) (Report, error) {
	p, err := New(cfg)
	if err != nil {
		return Report{}, err
	}
	s := &simulation{pool: p, w: w, rng: rand.New(rand.NewPCG(w.Seed, 1))}
	s.report.Reasons = map[Reason]int{}
	s.now = time.Unix(0, 0)
	if !w.Cold {
		s.fill()
	}
	s.start = s.now
	s.run()
	s.finish()
	return s.report, nil
}

type simulation struct {
	pool   *Pool
	w      Workload
	rng    *rand.Rand
	start  time.Time
	now    time.Time
	ahead  agenda
	seq    int
	timer  time.Time // of the last Timer action; other ticks in the agenda are stale
	open   int       // calls that have neither sandbox nor no
	next   int       // the next arrival
	report Report

	weighted float64       // ready × seconds
	step     time.Duration // between two Levels
	sampled  time.Duration // when the next one is due
}

// happening is one event that is to come.
type happening struct {
	at  time.Time
	seq int // keeps the order of equal times
	ev  Event
}

type agenda []happening

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

// fill boots the pool before the first arrival; what it counts is not part of the report.
func (s *simulation) fill() {
	s.handle(Tick{})
	for len(s.pool.ready) < s.pool.size && len(s.ahead) > 0 {
		s.forward()
	}
	s.pool.counts, s.weighted = Counts{}, 0
}

func (s *simulation) run() {
	if n := len(s.w.Arrivals); n > 0 {
		s.step = max(s.w.Arrivals[n-1]/maxLevels, 1)
	}
	s.handle(Tick{})
	for s.next < len(s.w.Arrivals) || s.open > 0 {
		if s.next < len(s.w.Arrivals) {
			at := s.start.Add(s.w.Arrivals[s.next])
			if len(s.ahead) == 0 || !s.ahead[0].at.Before(at) {
				s.next++
				s.open++
				s.pass(at)
				s.handle(LeaseWanted{Waiter: Waiter(s.next)})
				continue
			}
		}
		if len(s.ahead) == 0 {
			return // cannot be: a waiter always has a deadline
		}
		s.forward()
	}
}

// forward lets the next happening happen.
func (s *simulation) forward() {
	h := heap.Pop(&s.ahead).(happening)
	if _, tick := h.ev.(Tick); tick && !h.at.Equal(s.timer) {
		return
	}
	s.pass(h.at)
	s.handle(h.ev)
}

// pass lets time pass.
func (s *simulation) pass(to time.Time) {
	s.weighted += float64(len(s.pool.ready)) * to.Sub(s.now).Seconds()
	s.now = to
}

func (s *simulation) handle(ev Event) {
	for _, a := range s.pool.Handle(s.now, ev) {
		switch a := a.(type) {
		case Boot:
			s.later(s.about(s.w.Boot), BootDone(a))
		case Hand:
			s.open--
			s.report.waits = append(s.report.waits, a.Waited)
			s.later(s.about(s.w.Run), Released{Slot: a.Slot})
		case Reject:
			s.open--
			s.report.Reasons[a.Reason]++
		case Destroy:
			s.later(s.about(s.w.Destroy), Destroyed(a))
		case Timer:
			s.timer = a.At
			s.later(a.At.Sub(s.now), Tick{})
		}
	}
	s.report.SizeMax = max(s.report.SizeMax, s.pool.size)
	s.sample()
}

func (s *simulation) later(d time.Duration, ev Event) {
	s.seq++
	heap.Push(&s.ahead, happening{at: s.now.Add(d), seq: s.seq, ev: ev})
}

// about draws a time around its mean.
func (s *simulation) about(mean time.Duration) time.Duration {
	return time.Duration(float64(mean) * (1 + s.w.Spread*(2*s.rng.Float64()-1)))
}

// sample notes the level when a step has passed since the last one.
func (s *simulation) sample() {
	at := s.now.Sub(s.start)
	if s.start.IsZero() || at < s.sampled || len(s.report.Levels) >= maxLevels {
		return
	}
	s.sampled = at + s.step
	st := s.pool.Stats()
	s.report.Levels = append(s.report.Levels, Level{
		At: at, Ready: st.Ready, Booting: st.Booting, Leased: st.Leased, Waiting: st.Waiting, Size: st.Size,
	})
}

func (s *simulation) finish() {
	r, c := &s.report, s.pool.counts
	r.Calls, r.Boots = s.next, int(c.Boots)
	r.Hits, r.Waits, r.Colds, r.Rejected = int(c.Hits), int(c.Waits), int(c.Colds), int(c.Rejected)
	r.HitRate = 1
	if r.Calls > 0 {
		r.HitRate = float64(r.Hits) / float64(r.Calls)
	}
	r.Took = s.now.Sub(s.start)
	if t := r.Took.Seconds(); t > 0 {
		r.ReadyMean = s.weighted / t
	}
	slices.Sort(r.waits)
	r.WaitP50, r.WaitP90, r.WaitP99 = rank(r.waits, 0.50), rank(r.waits, 0.90), rank(r.waits, 0.99)
	r.WaitMax = rank(r.waits, 1)
}

// rank is the nearest-rank percentile of sorted times: the least one that the share q of them does not exceed.
func rank(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(i, 1), len(sorted))-1]
}
