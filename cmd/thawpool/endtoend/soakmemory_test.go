//go:build integration

package endtoend

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// memory is what processes use over time. A part that is replaced begins a new series.
type memory struct {
	series map[string]map[int][]sample // by part and process
}

type sample struct {
	at  time.Duration
	kib float64
}

func newMemory() *memory { return &memory{series: map[string]map[int][]sample{}} }

// add notes the memory that is a process's own: what it shares with its file is the kernel's to keep or drop.
func (m *memory) add(part string, pid int, at time.Duration) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return // has just ended
	}
	for line := range strings.Lines(string(data)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "RssAnon: %f kB", &kib); n == 1 {
			if m.series[part] == nil {
				m.series[part] = map[int][]sample{}
			}
			m.series[part][pid] = append(m.series[part][pid], sample{at, kib})
		}
	}
}

// longest is the series of the process of a part that lived longest, without its first third: what a process fills once is
// no growth.
func (m *memory) longest(part string) (best []sample) {
	for _, s := range m.series[part] {
		if len(s) > len(best) {
			best = s
		}
	}
	return best[len(best)/3:]
}

// slope is the least-squares slope in KiB a minute.
func slope(s []sample) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range s {
		x := p.at.Minutes()
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+p.kib, sxx+x*x, sxy+x*p.kib
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

const (
	// longSeries is how much of a process's life must be known to say anything of its growth.
	longSeries = 5 * time.Minute
	// growthMost is the growth of a process in all that time that counts as none: a heap moves by some MiB.
	growthMost = 12 << 10 // KiB
)

// report prints what was done and how memory went, and fails the test when something grew.
func (s *soak) report(length time.Duration, clean string) {
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		s.t.Logf("soak | %s | %d", what, s.counts[what])
	}
	for _, part := range slices.Sorted(maps.Keys(s.memory.series)) {
		series := s.memory.longest(part)
		if len(series) < 2 {
			continue
		}
		first, last := series[0], series[len(series)-1]
		k := slope(series)
		s.t.Logf("soak | memory of %s over %v | %.1f MiB at the end | %+.1f KiB/min", part,
			(last.at - first.at).Round(time.Second), last.kib/1024, k)
		if over := last.at - first.at; over > longSeries && k*over.Minutes() > growthMost {
			s.t.Errorf("%s grows by %.0f KiB/min", part, k)
		}
	}
	s.t.Logf("soak | %v, %d faults, %s", length, s.faults.Load(), clean)
}

// The slope of what grows is seen, and of what only moves is not.
func TestSlope(t *testing.T) {
	var grows, moves []sample
	for i := range 600 {
		at := time.Duration(i) * time.Second
		noise := float64(i*7919%1000) - 500
		grows = append(grows, sample{at, 50_000 + 100*at.Minutes() + noise})
		moves = append(moves, sample{at, 50_000 + noise})
	}
	if k := slope(grows); k < 90 || k > 110 {
		t.Errorf("grows by %f", k)
	}
	if k := slope(moves); k < -10 || k > 10 {
		t.Errorf("moves by %f", k)
	}
}
