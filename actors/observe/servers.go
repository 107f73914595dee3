package observe

import (
	"github.com/thawpool/thawpool/actors"
)

const (
	// serversMost bounds the names of servers in labels and lists. Only servers that were started enter.
	serversMost = 100
	// hostName stands for what code asks of the host itself: docs, memories and the like.
	hostName = "host"
	// otherName stands for all that has no name of its own: names that code made up, and those beyond the bound.
	otherName = "other"
)

// Server is what was asked of one server.
type Server struct {
	Name     string  `json:"name"`
	Calls    int64   `json:"calls"`
	Errors   int64   `json:"errors"` // calls that did not end ok, or as planned
	MS       float64 `json:"ms"`     // in all
	BytesIn  int64   `json:"bytesIn"`
	BytesOut int64   `json:"bytesOut"`
}

// enter takes a server of the configuration into the label set, and returns its label.
func (r *Recorder) enter(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.servers[name] == nil {
		if len(r.servers) >= serversMost {
			return otherName
		}
		r.servers[name] = &Server{Name: name}
	}
	return name
}

// outcomes are those that an InnerCall may have.
var outcomes = map[string]bool{"ok": true, "error": true, "denied": true, "cancelled": true, "timeout": true, "planned": true}

// countInner notes a call that code made. Its server's name may be the code's own invention.
func (r *Recorder) countInner(c actors.InnerCall) {
	name, outcome := c.Server, c.Outcome
	if !outcomes[outcome] {
		outcome = otherName
	}
	r.mu.Lock()
	s := r.servers[name]
	switch {
	case name == "":
		name = hostName
	case s == nil:
		name = otherName
	default:
		s.Calls++
		s.MS += c.MS
		s.BytesIn, s.BytesOut = s.BytesIn+int64(c.BytesIn), s.BytesOut+int64(c.BytesOut)
		if outcome != "ok" && outcome != "planned" {
			s.Errors++
		}
	}
	r.mu.Unlock()
	m := r.metrics
	m.innerCalls.WithLabelValues(name, outcome).Inc()
	m.innerTime.WithLabelValues(name).Observe(c.MS / 1000)
	m.innerBytes.WithLabelValues(name, "in").Add(float64(c.BytesIn))
	m.innerBytes.WithLabelValues(name, "out").Add(float64(c.BytesOut))
}
