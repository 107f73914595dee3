package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Percentiles of a duration, in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Summary is what one load came to.
type Summary struct {
	Calls      int            `json:"calls"`
	Errors     int            `json:"errors"`
	FirstError string         `json:"firstError,omitempty"`
	Seconds    float64        `json:"seconds"`    // from the first call due to the last answer
	Throughput float64        `json:"throughput"` // good answers a second
	Latency    Percentiles    `json:"latencyMs"`
	Queue      Percentiles    `json:"queueMs"`
	Thaw       Percentiles    `json:"thawMs"`
	Run        Percentiles    `json:"runMs"`
	RunCPU     float64        `json:"runCpuMs"` // mean of the run itself
	Pool       map[string]int `json:"pool"`     // answers by hit, wait, cold
	HitRate    float64        `json:"hitRate"`  // of the good answers
}

// Summarize counts samples. Failed calls count as errors and in no percentile.
func Summarize(samples []Sample) Summary {
	s := Summary{Calls: len(samples), Pool: map[string]int{}}
	latency, queue, thaw, run := newHistogram(), newHistogram(), newHistogram(), newHistogram()
	var cpu time.Duration
	var end time.Duration
	for _, x := range samples {
		end = max(end, x.At+x.Latency)
		if x.Err != nil {
			if s.Errors++; s.FirstError == "" {
				s.FirstError = x.Err.Error()
			}
			continue
		}
		record(latency, x.Latency)
		record(queue, x.Queue)
		record(thaw, x.Thaw)
		record(run, x.Run)
		cpu += x.CPU
		s.Pool[x.Pool]++
	}
	good := s.Calls - s.Errors
	if good == 0 {
		return s
	}
	s.Seconds = (end - samples[0].At).Seconds()
	s.Throughput = float64(good) / s.Seconds
	s.Latency, s.Queue = percentiles(latency), percentiles(queue)
	s.Thaw, s.Run = percentiles(thaw), percentiles(run)
	s.RunCPU = cpu.Seconds() * 1000 / float64(good)
	s.HitRate = float64(s.Pool["hit"]) / float64(good)
	return s
}

// newHistogram counts microseconds up to ten minutes with three digits kept.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 3)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 0), h.HighestTrackableValue())) // clamped: cannot fail
}

func percentiles(h *hdrhistogram.Histogram) Percentiles {
	ms := func(v int64) float64 { return float64(v) / 1000 }
	return Percentiles{
		P50: ms(h.ValueAtQuantile(50)), P90: ms(h.ValueAtQuantile(90)), P99: ms(h.ValueAtQuantile(99)), Max: ms(h.Max()),
	}
}
