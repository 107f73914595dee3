package pool

import (
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals are the moments at which calls come, from the start of a simulation, in order.
type Arrivals []time.Duration

// Steady is one call each 1/rate seconds.
func Steady(rate float64, span time.Duration) Arrivals {
	var a Arrivals
	gap := float64(time.Second) / rate
	for i := 0; ; i++ {
		t := time.Duration(float64(i) * gap)
		if t >= span {
			return a
		}
		a = append(a, t)
	}
}

// Poisson is calls that come independently of each other, rate a second on average.
func Poisson(rate float64, span time.Duration, seed uint64) Arrivals {
	return varying(rate, span, seed, func(time.Duration) float64 { return 1 })
}

// Bursts is n calls at the same moment, again after each interval.
func Bursts(n int, every, span time.Duration) Arrivals {
	var a Arrivals
	for t := time.Duration(0); t < span; t += every {
		for range n {
			a = append(a, t)
		}
	}
	return a
}

// Days is Poisson calls whose rate goes between none at night and peak (a second) at noon, as a sine over each day.
func Days(peak float64, day, span time.Duration, seed uint64) Arrivals {
	return varying(peak, span, seed, func(t time.Duration) float64 {
		return max(0, -math.Cos(2*math.Pi*float64(t%day)/float64(day)))
	})
}

// varying is a Poisson process of the given peak rate, thinned to the share that part gives for each moment.
func varying(peak float64, span time.Duration, seed uint64, part func(time.Duration) float64) Arrivals {
	rng := rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15))
	var a Arrivals
	for t := 0.0; ; {
		t += rng.ExpFloat64() / peak
		at := time.Duration(t * float64(time.Second))
		if at >= span {
			return a
		}
		if rng.Float64() < part(at) {
			a = append(a, at)
		}
	}
}
