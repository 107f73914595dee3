package ops

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/observe"
)

// System is what Ops looks at and changes of an actors.System.
type System interface {
	Stats() actors.Stats
	Sandboxes() []actors.SandboxInfo
	Resize(profile string, size int) error
	Drain(ctx context.Context, profile string) error
}

// Servers is what Ops looks at and changes of an actors.Hub.
type Servers interface {
	Status() []actors.ClientStatus
	Restart(server string) error
}

// Check is one of doctor's checks.
type Check struct {
	Title  string `json:"title"`
	OK     bool   `json:"ok"`
	Fatal  bool   `json:"fatal"`
	Detail string `json:"detail,omitempty"` // what was found, or the cause
	Fix    string `json:"fix,omitempty"`
}

// Condition is something without which sandboxes cannot be had, or calls not be taken. Its error is the cause in words.
type Condition func() error

// Config is what an Ops is made of. System is required.
type Config struct {
	// System is the running system, or why there is none at present.
	System  func() (System, error)
	Servers Servers // nil when there are none
	// Recorder and Metrics are nil where only `thawpool status` looks.
	Recorder   *observe.Recorder
	Metrics    *observe.Metrics
	Checks     func(ctx context.Context) []Check // doctor's, nil when there are none; may take seconds
	Conditions []Condition                       // beside those of the system itself

	// SelfCheck is how often a call is made through the whole path while no others are; 0 means never. Probe makes it.
	SelfCheck time.Duration
	Probe     func(ctx context.Context) error

	Version string
	Started time.Time
	Log     zerolog.Logger
}
