package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/thawpool/thawpool/actors"
)

// WatchPools adds what pools hold, as stats tells it at each scrape. It is called once; stats gives false while there are
// no pools yet.
func (m *Metrics) WatchPools(stats func() (actors.Stats, bool)) {
	c := &pools{stats: stats}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		m.define("gauge", name, help, labels)
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	c.sandboxes = desc("pool_sandboxes", "Sandboxes by state: booting, ready, leased or destroying.", "profile", "state")
	c.size = desc("pool_size", "Sandboxes that the pool keeps ready.", "profile")
	c.most = desc("pool_max", "Sandboxes that the pool may have at once, in any state.", "profile")
	c.waiting = desc("queue_length", "Calls that wait for a sandbox.", "profile")
	c.failing = desc("pool_boots_failing", "1 while boots fail, else 0.", "profile")
	m.Registry.MustRegister(c)
}

// pools reads the pools when it is asked.
type pools struct {
	stats                                   func() (actors.Stats, bool)
	sandboxes, size, most, waiting, failing *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *pools) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.sandboxes, c.size, c.most, c.waiting, c.failing} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *pools) Collect(to chan<- prometheus.Metric) {
	stats, ok := c.stats()
	if !ok {
		return
	}
	for name, p := range stats.Profiles {
		put := func(d *prometheus.Desc, n int, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), append([]string{name}, labels...)...)
		}
		put(c.sandboxes, p.Booting, "booting")
		put(c.sandboxes, p.Ready, "ready")
		put(c.sandboxes, p.Leased, "leased")
		put(c.sandboxes, p.Destroying, "destroying")
		put(c.size, p.Size)
		put(c.most, p.Max)
		put(c.waiting, p.Waiting)
		failing := 0
		if p.BootError != nil {
			failing = 1
		}
		put(c.failing, failing)
	}
}
