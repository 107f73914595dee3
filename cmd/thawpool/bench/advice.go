package bench

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/thawpool/thawpool/pool"
)

// adviceHits is the hit rate that a recommended pool must reach in the simulator.
const adviceHits = 0.99

// adviceSpan is how long the check simulates: at one call a second it still has hundreds of calls.
const adviceSpan = 10 * time.Minute

// Demand is what a pool has to meet, as measured.
type Demand struct {
	Rate    float64       // calls a second
	Boot    time.Duration // of one sandbox while others boot too
	Run     time.Duration // from the hand-out to the release
	Destroy time.Duration // from the release until it is gone
	Seed    uint64
}

// Advice is a recommended pool.
type Advice struct {
	Size     int     `json:"size"`     // --pool-size
	Refill   int     `json:"refill"`   // --pool-refill it holds for
	Booting  float64 `json:"booting"`  // boots in flight on average: rate × boot time
	Margin   int     `json:"margin"`   // by which the Poisson quantile exceeds that
	HitRate  float64 `json:"hitRate"`  // of the simulated pool
	Possible bool    `json:"possible"` // false: the refill cannot keep up with the rate, whatever the size
	Text     string  `json:"text"`
}

// Recommend sizes a pool: by Little's law rate × boot time sandboxes are on their way at any moment, so that many calls
// come before a replacement is there; the Poisson quantile of that mean adds the margin for bursts; the simulator, which
// knows the refill's limit, checks the size and raises it where it must.
func Recommend(cfg pool.Config, d Demand) (Advice, error) {
	mean := d.Rate * d.Boot.Seconds()
	a := Advice{Refill: cfg.Refill, Booting: mean}
	first := PoissonQuantile(mean, adviceHits)
	a.Margin = max(0, first-int(math.Ceil(mean)))
	var b strings.Builder
	fmt.Fprintf(&b, "pool size: %.1f calls a second × %.0f ms a boot = %.1f boots in flight (Little's law); in %.0f %% of such "+
		"times at most %d calls come (Poisson)", d.Rate, msOf(d.Boot), mean, percent*adviceHits, first)
	capacity := float64(cfg.Refill) / d.Boot.Seconds()
	if d.Rate >= capacity {
		a.Text = b.String() + fmt.Sprintf(".\nNo size suffices: %d boots side by side make %.1f sandboxes a second. "+
			"Calls wait, or are rejected; raise --pool-refill on a machine with more processors.", cfg.Refill, capacity)
		return a, nil
	}
	cfg.Auto, cfg.Empty = false, pool.EmptyWait
	for a.Size = max(1, first); ; a.Size++ {
		cfg.Size, cfg.Max = a.Size, max(cfg.Max, 2*a.Size+cfg.Refill)
		r, err := pool.Simulate(cfg, pool.Workload{
			Arrivals: pool.Poisson(d.Rate, adviceSpan, d.Seed), Boot: d.Boot, Run: d.Run, Destroy: d.Destroy, Spread: 0.2, Seed: d.Seed,
		})
		if err != nil {
			return a, fmt.Errorf("simulate the recommended pool: %w", err)
		}
		if a.HitRate = r.HitRate; r.HitRate >= adviceHits || a.Size >= adviceMost {
			break
		}
	}
	a.Possible = a.HitRate >= adviceHits
	fmt.Fprintf(&b, ";\nsimulated with --pool-refill %d over %v that gives %.2f %% hits with --pool-size %d.", cfg.Refill, adviceSpan,
		percent*a.HitRate, a.Size)
	if a.Size > first {
		fmt.Fprintf(&b, " (The refill makes at most %.1f a second, so bursts take longer to recover from than one boot.)", capacity)
	}
	if a.Possible {
		fmt.Fprintf(&b, "\nRecommended: --pool-size %d", a.Size)
	}
	a.Text = b.String()
	return a, nil
}

// adviceMost ends the search near the refill's limit, where sizes grow without bound.
const adviceMost = 256

// PoissonQuantile is the least n with P(X ≤ n) ≥ q, X being Poisson with that mean.
func PoissonQuantile(mean, q float64) int {
	if mean <= 0 {
		return 0
	}
	// Terms are summed by their logarithms, since exp(-mean) is zero for large means.
	sum := 0.0
	for n := 0; ; n++ {
		lg, _ := math.Lgamma(float64(n) + 1)
		sum += math.Exp(float64(n)*math.Log(mean) - mean - lg)
		if sum >= q || float64(n) > mean+20*math.Sqrt(mean)+20 {
			return n
		}
	}
}

func msOf(d time.Duration) float64 { return d.Seconds() * 1000 }
