package bench

import "fmt"

// Target is a promise and what was measured of it.
type Target struct {
	What     string  `json:"what"`
	Limit    float64 `json:"limit"`
	AtLeast  bool    `json:"atLeast"` // the limit is the least; else the most
	Unit     string  `json:"unit"`
	Measured float64 `json:"measured"`
	// Missing says why it was not measured; "" when it was.
	Missing string `json:"missing,omitempty"`
	Met     bool   `json:"met"`
}

// Figures is what targets are made of. Rows are found by name; nil where a system was not measured.
type Figures struct {
	Floor, Thawpool, Podman *Row
	HalfLoad                *Summary // Poisson at half the sustained rate
	IdleCores               float64  // of frozen sandboxes together; negative when not measured
	Idle                    int      // how many they were
	Front                   float64  // calls a second; 0 when not measured
}

// The promises, as ratios to the floor: a bare Python process that has imported what the guest imports and answers one run
// on a pipe.
const (
	WarmP50Most  = 3.5  // p50 of a warm answer over MCP, in floor round trips
	WarmP99Most  = 12   // p99 of the same
	LifeCPUMost  = 1.5  // CPU of a whole sandbox life, in floor lives
	RateLeast    = 0.6  // fresh sandboxes a second, in floor lives a second
	PodmanLeast  = 5    // the same, in podman runs a second
	HitLeast     = 99   // % hits of Poisson arrivals at half the sustained rate
	FrozenMost   = 1.2  // PSS of a frozen sandbox, in that of the waiting floor
	IdleMost     = 1    // % of a core that 100 frozen sandboxes may take together
	FrontLeast   = 5000 // calls a second of the front alone
	percent      = 100
	notMeasured  = "not measured in this run"
	noneInTheRun = "there is none in this run"
)

// Targets compares.
func Targets(f Figures) []Target {
	floor, thaw := f.Floor, f.Thawpool
	both := ""
	if floor == nil || thaw == nil {
		both = "needs the floor beside it: --against bare"
		floor, thaw = &Row{}, &Row{}
	}
	podman, noPodman := f.Podman, both
	if podman == nil || podman.Rate.Rounds == 0 {
		podman = &Row{}
		noPodman = "podman: " + noneInTheRun
	}
	half, noHalf := f.HalfLoad, ""
	if half == nil {
		half, noHalf = &Summary{}, notMeasured
	}
	idle := ""
	if f.IdleCores < 0 || f.Idle == 0 {
		idle = notMeasured
	}
	front := ""
	if f.Front == 0 {
		front = notMeasured
	}
	return []Target{
		most("warm answer p50 / floor round trip", "×", WarmP50Most, ratio(thaw.WarmP50.Median, floor.WarmP50.Median), both),
		most("warm answer p99 / floor round trip", "×", WarmP99Most, ratio(thaw.Warm.P99, floor.WarmP50.Median), both),
		most("CPU of a sandbox life / floor life", "×", LifeCPUMost, ratio(thaw.LifeCPU.Median, floor.LifeCPU.Median), both),
		least("fresh sandboxes a second / floor lives", "×", RateLeast, ratio(thaw.Rate.Median, floor.Rate.Median), both),
		least("fresh sandboxes a second / podman run", "×", PodmanLeast, ratio(thaw.Rate.Median, podman.Rate.Median), noPodman),
		least("hit rate, Poisson at half the sustained rate", "%", HitLeast, percent*half.HitRate, noHalf),
		most("memory (PSS) of a frozen one / waiting floor", "×", FrozenMost, ratio(float64(thaw.FrozenPSS), float64(floor.FrozenPSS)), both),
		most(fmt.Sprintf("%d frozen ones, idle, of one core", f.Idle), "%", IdleMost, percent*f.IdleCores, idle),
		least("front alone, calls a second", "", FrontLeast, f.Front, front),
	}
}

func most(what, unit string, limit, measured float64, missing string) Target {
	return judge(Target{What: what, Unit: unit, Limit: limit, Measured: measured, Missing: missing})
}

func least(what, unit string, limit, measured float64, missing string) Target {
	return judge(Target{What: what, Unit: unit, Limit: limit, Measured: measured, Missing: missing, AtLeast: true})
}

func judge(t Target) Target {
	if t.Missing == "" && t.Measured == 0 && t.AtLeast {
		t.Missing = notMeasured
	}
	if t.Missing != "" {
		t.Measured = 0
		return t
	}
	t.Met = t.Measured <= t.Limit
	if t.AtLeast {
		t.Met = t.Measured >= t.Limit
	}
	return t
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
