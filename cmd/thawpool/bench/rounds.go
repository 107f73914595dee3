package bench

import (
	"fmt"
	"math"
	"slices"
)

// Spread is one figure over the rounds of a run.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// SpreadOf is the middle and the ends of values; zero when there are none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Spread{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], Rounds: n}
}

// String shows it with three digits.
func (s Spread) String() string {
	switch s.Rounds {
	case 0:
		return "-"
	case 1:
		return digits(s.Median)
	}
	return fmt.Sprintf("%s [%s–%s]", digits(s.Median), digits(s.Min), digits(s.Max))
}

// digits shows a number with about three digits that say something.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 10:
		return fmt.Sprintf("%.2f", v)
	case a < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Round is what one turn of one system gave. NaN-free: what was not measured is absent.
type Round struct {
	Warm  []float64 // ms, round trips on something that had started before
	Lives Summary   // fresh lives, one call each, in a closed loop
	// LifeCPU is CPU milliseconds a life of the system's own processes, boot to removal. Busy is the same by the machine's
	// count, other people's work and the client included, with the idle machine's share taken off.
	LifeCPU, Busy float64
}

// Fold puts rounds into the row's medians.
func (row *Row) Fold(rounds []Round) {
	var p50, cpu, busy, rate, life, all []float64
	for _, r := range rounds {
		if len(r.Warm) > 0 {
			p50 = append(p50, Quantile(r.Warm, 0.5))
			all = append(all, r.Warm...)
		}
		if r.LifeCPU > 0 {
			cpu = append(cpu, r.LifeCPU)
		}
		if r.Busy > 0 {
			busy = append(busy, r.Busy)
		}
		if r.Lives.Throughput > 0 {
			rate = append(rate, r.Lives.Throughput)
			life = append(life, r.Lives.Latency.P50)
		}
	}
	row.WarmP50, row.LifeCPU, row.Busy, row.Rate, row.LifeP50 = SpreadOf(p50), SpreadOf(cpu), SpreadOf(busy), SpreadOf(rate), SpreadOf(life)
	row.WarmCalls = len(all)
	if len(all) > 0 {
		row.Warm = Percentiles{P50: Quantile(all, 0.5), P90: Quantile(all, 0.9), P99: Quantile(all, 0.99), Max: slices.Max(all)}
	}
}

// Quantile is the nearest-rank quantile of values: the least one that the share q of them does not exceed.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	i := int(math.Ceil(q * float64(len(v))))
	return v[min(max(i, 1), len(v))-1]
}
