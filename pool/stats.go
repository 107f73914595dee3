package pool

import "time"

// Counts grow, but for those of a call that lost the sandbox it was handed: it counts again with the next one.
type Counts struct {
	Hits, Waits, Colds, Rejected int64 // calls by what they got
	Boots, BootFailures          int64 // boots begun, and those that failed
	Lost, Retired                int64 // frozen sandboxes that died, and those removed for age or number
}

// Stats is a pool at one moment.
type Stats struct {
	Counts
	Size, Max                          int // the Size in force, and Config.Max
	Ready, Booting, Leased, Destroying int
	Waiting                            int
	BootTook                           time.Duration // smoothed over the last boots; zero before the first
	BootError                          error         // why boots fail at present; nil when they do not
	RetryAt                            time.Time     // with BootError: when the next boot is tried
	Draining                           bool          // for good: every call is rejected
}

// Stats returns the pool as it is.
func (p *Pool) Stats() Stats {
	st := Stats{
		Counts: p.counts, Size: p.size, Max: p.cfg.Max,
		Ready: len(p.ready), Booting: p.booting, Leased: p.leased, Destroying: p.destroying,
		Waiting: len(p.waiters), BootTook: p.bootTook, Draining: p.draining,
	}
	if p.trouble.now() {
		st.BootError, st.RetryAt = p.trouble.cause, p.trouble.until
	}
	return st
}
