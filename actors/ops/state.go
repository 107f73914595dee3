package ops

import (
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/observe"
)

// State is one process at one moment: what the page and `thawpool status` show.
type State struct {
	PID      int              `json:"pid"`
	Version  string           `json:"version"`
	Started  time.Time        `json:"started"`
	At       time.Time        `json:"at"`
	Health   Health           `json:"health"`
	Turns    []Turn           `json:"turns"`
	Pools    []Pool           `json:"pools"`
	Boxes    []Box            `json:"sandboxes"`
	Servers  []ServerState    `json:"servers"`
	InFlight []observe.Call   `json:"inFlight"`
	Ended    int64            `json:"ended"` // calls
	P50      float64          `json:"p50Ms"`
	P99      float64          `json:"p99Ms"`
	Asked    []observe.Server `json:"asked,omitempty"`
}

// Pool is one profile's pool.
type Pool struct {
	Profile    string  `json:"profile"`
	Size       int     `json:"size"`
	Max        int     `json:"max"`
	Ready      int     `json:"ready"`
	Booting    int     `json:"booting"`
	Leased     int     `json:"leased"`
	Destroying int     `json:"destroying"`
	Waiting    int     `json:"waiting"`
	Hits       int64   `json:"hits"`
	Waits      int64   `json:"waits"`
	Colds      int64   `json:"colds"`
	Rejected   int64   `json:"rejected"`
	Lost       int64   `json:"lost"`
	BootMS     float64 `json:"bootMs"`
	BootError  string  `json:"bootError,omitempty"`
	Draining   bool    `json:"draining"`
}

// Box is one sandbox.
type Box struct {
	Profile string  `json:"profile"`
	ID      string  `json:"id"`
	State   string  `json:"state"`
	AgeMS   float64 `json:"ageMs"`
	Request string  `json:"request,omitempty"`
	CPUMS   float64 `json:"cpuMs"`
	Peak    int64   `json:"peakMemoryBytes"`
}

// ServerState is one upstream server.
type ServerState struct {
	Name     string  `json:"name"`
	State    string  `json:"state"`
	Error    string  `json:"error,omitempty"`
	InFlight int     `json:"inFlight"`
	Starts   int     `json:"starts"`
	Calls    int64   `json:"calls"`
	Failures int64   `json:"failures"`
	MeanMS   float64 `json:"meanMs"`
	Stderr   string  `json:"stderr,omitempty"`
}

// stderrBytes bounds what is shown of a server's stderr.
const stderrBytes = 2 << 10

// state gathers everything now.
func (o *Ops) state() State {
	c := &o.cfg
	s := State{PID: os.Getpid(), Version: c.Version, Started: c.Started, At: time.Now(), Health: o.health.check(), Turns: o.health.history(),
		Pools: []Pool{}, Boxes: []Box{}, Servers: []ServerState{}, InFlight: []observe.Call{}}
	if sys, err := c.System(); err == nil {
		s.Pools, s.Boxes = pools(sys.Stats()), o.boxes.list(sys)
	}
	if c.Servers != nil {
		for _, st := range c.Servers.Status() {
			s.Servers = append(s.Servers, serverState(st))
		}
	}
	if r := c.Recorder; r != nil {
		s.InFlight, s.Ended, s.Asked = r.InFlight(), r.Total(), r.Servers()
		s.P50, s.P99 = r.Latency()
		for i := range s.InFlight { // who wants to see them asks for the one call
			s.InFlight[i].Inner, s.InFlight[i].Code = nil, ""
		}
	}
	return s
}

func pools(stats actors.Stats) []Pool {
	all := make([]Pool, 0, len(stats.Profiles))
	for name, p := range stats.Profiles {
		v := Pool{Profile: name, Size: p.Size, Max: p.Max, Ready: p.Ready, Booting: p.Booting, Leased: p.Leased, Destroying: p.Destroying,
			Waiting: p.Waiting, Hits: p.Hits, Waits: p.Waits, Colds: p.Colds, Rejected: p.Rejected, Lost: p.Lost,
			BootMS: float64(p.BootTook.Microseconds()) / 1000, Draining: p.Draining}
		if p.BootError != nil {
			v.BootError = p.BootError.Error()
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Pool) int { return strings.Compare(a.Profile, b.Profile) })
	return all
}

func serverState(st actors.ClientStatus) ServerState {
	words := st.Stderr
	if len(words) > stderrBytes {
		words = strings.ToValidUTF8(words[len(words)-stderrBytes:], "")
	}
	return ServerState{Name: st.Name, State: string(st.State), Error: st.Error, InFlight: st.InFlight, Starts: st.Starts,
		Calls: st.Calls, Failures: st.Failures, MeanMS: st.MeanMS, Stderr: words}
}

// boxes lists sandboxes, and for all who look within a second only once: the kernel is asked for each.
type boxes struct {
	mu   sync.Mutex
	last []Box
	at   time.Time
}

func (b *boxes) list(sys System) []Box {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.at) < watchEvery*9/10 {
		return b.last
	}
	all := []Box{}
	for _, s := range sys.Sandboxes() {
		all = append(all, Box{Profile: s.Profile, ID: s.ID, State: s.State, AgeMS: float64(time.Since(s.Since).Milliseconds()),
			Request: s.Request, CPUMS: float64(s.Usage.CPU.Microseconds()) / 1000, Peak: s.Usage.MemoryPeak})
	}
	slices.SortFunc(all, func(a, b Box) int { return strings.Compare(a.ID, b.ID) })
	b.last, b.at = all, time.Now()
	return all
}

// samplesKept is how much of the past the charts show: a quarter of an hour.
const samplesKept = 900

// sample is one point of the charts. Counts are since the sample before.
type sample struct {
	At      int64   `json:"t"` // Unix seconds
	Ready   int     `json:"ready"`
	Booting int     `json:"booting"`
	Leased  int     `json:"leased"`
	Waiting int     `json:"waiting"`
	Hits    int64   `json:"hits"`
	Calls   int64   `json:"calls"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
}

// history is the samples of late.
type history struct {
	mu          sync.Mutex
	all         []sample
	hits, calls int64 // when the last one was taken
}

func (h *history) take(stats actors.Stats, r *observe.Recorder) {
	s := sample{At: time.Now().Unix()}
	var hits, calls int64
	for _, p := range stats.Profiles {
		s.Ready, s.Booting, s.Leased, s.Waiting = s.Ready+p.Ready, s.Booting+p.Booting, s.Leased+p.Leased, s.Waiting+p.Waiting
		hits, calls = hits+p.Hits, calls+p.Hits+p.Waits+p.Colds+p.Rejected
	}
	if r != nil {
		s.P50, s.P99 = r.Latency()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Hits, s.Calls = hits-h.hits, calls-h.calls
	h.hits, h.calls = hits, calls
	if len(h.all) >= samplesKept {
		h.all = slices.Delete(h.all, 0, 1)
	}
	h.all = append(h.all, s)
}

func (h *history) list() []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]sample{}, h.all...)
}
