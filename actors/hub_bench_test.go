package actors

import (
	"encoding/json"
	"testing"

	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/runtime/guest"
)

// BenchmarkHubCall is one small call through everything but the sandbox: frame arguments in, result out.
func BenchmarkHubCall(b *testing.B) {
	h := newHubBed(b, map[string]entry{"up": fakeEntry(fakeup.Script{})}, nil)
	r, err := h.Open(b.Context(), Request{})
	if err != nil {
		b.Fatal(err)
	}
	args := json.RawMessage(`{"server":"up","tool":"echo","args":{"text":"hello"}}`)
	call := func(r BridgeRun) {
		if _, _, err := r.Call(b.Context(), guest.VerbCall, args); err != nil {
			b.Fatal(err)
		}
	}
	call(r)
	b.Run("sequential", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			run, err := h.Open(b.Context(), Request{})
			if err != nil {
				b.Fatal(err)
			}
			call(run)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			run, err := h.Open(b.Context(), Request{})
			if err != nil {
				b.Error(err)
				return
			}
			for n := 0; pb.Next(); n++ {
				if n%1000 == 999 { // a run's budget
					if run, err = h.Open(b.Context(), Request{}); err != nil {
						b.Error(err)
						return
					}
				}
				call(run)
			}
		})
	})
}
