//go:build integration

package ctrd_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/guest"
)

// BenchmarkLife takes single sandboxes through their lives, one after the other, and reports the median of each phase
// in milliseconds.
func BenchmarkLife(b *testing.B) {
	for _, name := range []string{ctrd.RuntimeThawpool, ctrd.RuntimeRunc} {
		b.Run(name, func(b *testing.B) {
			e := envOf(b)
			rt := e.Runtime(b, func(c *ctrd.Config) { c.Runtime = name })
			if err := rt.Connect(b.Context()); err != nil {
				b.Fatal(err)
			}
			phases := map[string][]time.Duration{}
			for i := 0; b.Loop(); i++ {
				life(b, rt, fmt.Sprintf("life-%d", i), phases)
			}
			for phase, took := range phases {
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, phase+"-ms")
			}
			b.ReportMetric(0, "ns/op") // the phases tell
		})
	}
}

func life(b *testing.B, rt *ctrd.Runtime, id string, phases map[string][]time.Duration) {
	b.Helper()
	began := time.Now()
	mark := func(phase string) {
		now := time.Now()
		phases[phase] = append(phases[phase], now.Sub(began))
		began = now
	}
	sb, err := rt.Boot(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	mark("boot")
	if err := sb.Thaw(b.Context()); err != nil {
		b.Fatal(err)
	}
	mark("thaw")
	if err := guest.NewWriter(sb.Stream()).Run(guest.Run{ID: "r", Code: "print(1)", ValueMax: 100}); err != nil {
		b.Fatal(err)
	}
	if o := read(sb); o.out != "1\n" {
		b.Fatal(o)
	}
	mark("run")
	if err := sb.Destroy(b.Context()); err != nil {
		b.Fatal(err)
	}
	mark("destroy")
}
