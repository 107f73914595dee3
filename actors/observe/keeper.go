package observe

import "github.com/prometheus/client_golang/prometheus"

// Keeper is what the process that keeps the private containerd has done since it started.
type Keeper struct {
	Sweeps, SweepFailures, Replaced int64
	Removed                         map[string]int // by kind
}

// WatchKeeper adds what the keeper has done, as it is told at each scrape. It is called once; false means that nobody knows.
func (m *Metrics) WatchKeeper(now func() (Keeper, bool)) {
	c := &keeper{now: now}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		m.define("counter", name, help, labels)
		return prometheus.NewDesc(prefix+name, help, labels, nil)
	}
	c.sweeps = desc("keeper_sweeps_total", "Sweeps for what dead processes left, made by the keeper of the private containerd, which all processes of the user share.")
	c.failures = desc("keeper_sweep_failures_total", "Those of them that left something for the next one.")
	c.removed = desc("keeper_removed_total", "What the keeper's sweeps found and removed.", "kind")
	c.replaced = desc("keeper_daemon_replacements_total", "Times that the keeper replaced a containerd that died, hung or did not come up.")
	m.Registry.MustRegister(c)
}

// keeper asks when it is asked.
type keeper struct {
	now                                 func() (Keeper, bool)
	sweeps, failures, removed, replaced *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *keeper) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.sweeps, c.failures, c.removed, c.replaced} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *keeper) Collect(to chan<- prometheus.Metric) {
	k, ok := c.now()
	if !ok {
		return
	}
	put := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	put(c.sweeps, k.Sweeps)
	put(c.failures, k.SweepFailures)
	put(c.replaced, k.Replaced)
	for kind, n := range k.Removed {
		put(c.removed, int64(n), kind)
	}
}
