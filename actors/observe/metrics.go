package observe

import (
	goruntime "runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// prefix begins the name of every metric of ours.
const prefix = "thawpool_"

// Definition is one metric, for its documentation.
type Definition struct {
	Name, Type, Help string
	Labels           []string
}

// Metrics is everything that is counted, in a registry of its own.
type Metrics struct {
	Registry *prometheus.Registry
	defined  []Definition

	calls, leases, innerCalls, innerBytes                   *prometheus.CounterVec
	bootFailures, lost, destroyFailures                     *prometheus.CounterVec
	actorRestarts, actorHangs, serverStarts, serverFailures *prometheus.CounterVec
	sweepRemoved, selfChecks                                *prometheus.CounterVec
	sweeps, daemonLosses, daemonConnects                    prometheus.Counter
	auditErrors                                             prometheus.Counter
	inFlight, ready                                         prometheus.Gauge

	queueWait, boot, thaw, run, destroy, cpu, memory, innerTime *prometheus.HistogramVec
}

// The buckets of histograms, seconds and bytes.
var (
	shortTimes = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}           // a thaw takes a fraction of a millisecond
	longTimes  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120} // up to the longest timeout by default
	bytesUsed  = []float64{8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20, 256 << 20, 512 << 20, 1 << 30, 2 << 30, 4 << 30}
)

// NewMetrics registers everything. version is thawpool's own.
func NewMetrics(version string) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	m.calls = m.counters("calls_total", "Calls answered, by how they ended.", "profile", "status")
	m.inFlight = m.gauge("calls_in_flight", "Calls that have no answer yet.")
	m.leases = m.counters("leases_total", "Calls by what the pool gave them: hit, wait, cold, or refused.", "profile", "result")
	m.queueWait = m.histograms("queue_wait_seconds", "From reading a call to its sandbox.", longTimes, "profile")
	m.boot = m.histograms("sandbox_boot_seconds", "Boots that succeeded, from begin to frozen.", longTimes, "profile")
	m.bootFailures = m.counters("sandbox_boot_failures_total", "Boots that failed.", "profile")
	m.thaw = m.histograms("sandbox_thaw_seconds", "From the lease to running.", shortTimes, "profile")
	m.run = m.histograms("call_run_seconds", "From the thaw to the end of the code.", longTimes, "profile")
	m.destroy = m.histograms("sandbox_destroy_seconds", "Attempts to destroy a sandbox that succeeded.", longTimes, "profile")
	m.destroyFailures = m.counters("sandbox_destroy_failures_total", "Attempts to destroy a sandbox that failed and are repeated.", "profile")
	m.lost = m.counters("sandboxes_lost_total", "Sandboxes that died while they were frozen.", "profile")
	m.cpu = m.histograms("call_cpu_seconds", "CPU time of a call's sandbox, its boot not included.", longTimes, "profile")
	m.memory = m.histograms("call_peak_memory_bytes", "The most memory that a call's sandbox held.", bytesUsed, "profile")
	m.innerCalls = m.counters("inner_calls_total", "Calls that code made through the host, by server and outcome.", "server", "outcome")
	m.innerTime = m.histograms("inner_call_seconds", "Time of calls that code made through the host.", longTimes, "server")
	m.innerBytes = m.counters("inner_call_bytes_total", "Bytes of arguments (in) and results (out) of calls that code made through the host.", "server", "direction")
	m.serverStarts = m.counters("upstream_connects_total", "Connections made to upstream servers; those beyond the first are restarts.", "server")
	m.serverFailures = m.counters("upstream_failures_total", "Connections to upstream servers that could not be made or were lost.", "server")
	m.actorRestarts = m.counters("part_restarts_total", "Parts of thawpool that failed by a bug and were started anew.", "part")
	m.actorHangs = m.counters("part_hangs_total", "Parts of thawpool that did not answer any more: pool or client, which were replaced, session, whose call was ended, or supervisor.", "part")
	m.daemonConnects = m.single("daemon_connects_total", "Connections made to containerd; those beyond the first are restarts.")
	m.daemonLosses = m.single("daemon_losses_total", "Times that containerd was lost with its sandboxes.")
	m.sweeps = m.single("sweeps_total", "Sweeps for what dead processes left, made by this process in a containerd that no keeper of ours keeps.")
	m.sweepRemoved = m.counters("sweep_removed_total", "What sweeps of this process found and removed.", "kind")
	m.selfChecks = m.counters("self_checks_total", "Self-checks by outcome: ok, failed, or skipped because calls ran.", "outcome")
	m.auditErrors = m.single("audit_errors_total", "Lines of the audit log that could not be written.")
	m.ready = m.gauge("ready", "1 while sandboxes can be had, as /readyz says, else 0.")
	info := m.gauges("build_info", "Always 1; the labels tell the build.", "version", "goversion")
	info.WithLabelValues(version, goruntime.Version()).Set(1)
	m.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Definitions lists the metrics of ours, without those of Go and the process, in the order of their making.
func (m *Metrics) Definitions() []Definition { return m.defined }

func (m *Metrics) define(kind, name, help string, labels []string) {
	m.defined = append(m.defined, Definition{Name: prefix + name, Type: kind, Help: help, Labels: labels})
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	m.define("counter", name, help, labels)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	m.Registry.MustRegister(v)
	return v
}

func (m *Metrics) single(name, help string) prometheus.Counter {
	return m.counters(name, help).WithLabelValues()
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	m.define("gauge", name, help, labels)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
	m.Registry.MustRegister(v)
	return v
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	return m.gauges(name, help).WithLabelValues()
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	m.define("histogram", name, help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	m.Registry.MustRegister(v)
	return v
}

// SetReady notes what /readyz says.
func (m *Metrics) SetReady(ready bool) {
	v := 0.0
	if ready {
		v = 1
	}
	m.ready.Set(v)
}

// DaemonConnected notes a connection to containerd.
func (m *Metrics) DaemonConnected() { m.daemonConnects.Inc() }

// DaemonLost notes that containerd has gone.
func (m *Metrics) DaemonLost() { m.daemonLosses.Inc() }

// Swept notes a sweep, and what it removed by kind: containers, shims, groups, fifos, leases.
func (m *Metrics) Swept(removed map[string]int) {
	m.sweeps.Inc()
	for kind, n := range removed {
		m.sweepRemoved.WithLabelValues(kind).Add(float64(n))
	}
}

// SelfChecked notes a self-check: ok, failed or skipped.
func (m *Metrics) SelfChecked(outcome string) { m.selfChecks.WithLabelValues(outcome).Inc() }

// AuditFailed notes a line of the audit log that was lost.
func (m *Metrics) AuditFailed() { m.auditErrors.Inc() }
