package actors

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	candidates "github.com/thawpool/thawpool/actors/catalog/registry"
	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/actors/store"
	"github.com/thawpool/thawpool/actors/upstream"
	"github.com/thawpool/thawpool/pool"
)

// The defaults of HubConfig's optional fields.
const (
	DefaultInstances    = 1
	DefaultUpstreamIdle = 5 * time.Minute  // that of the reference bridge
	DefaultStartTimeout = 30 * time.Second // what npx and uvx need when they have to fetch a package is more: see startLate
	DefaultCallTimeout  = time.Minute
)

// startLate is how long a server that is late goes on starting, when nobody waits for it any more, before it is killed: a
// first start that downloads its package becomes usable without another try.
const startLate = 5 * time.Minute

// MaxInstances bounds what an operator can start of one server by a slip of the finger.
const MaxInstances = 64

// HubConfig is what a Hub is made of. Store and Policy are required.
type HubConfig struct {
	Sources  config.Sources // where servers are defined, and where added ones are kept; followed while the Hub lives
	CacheDir string         // where tool lists are kept; empty keeps none
	Policy   *policy.Policy
	Store    *store.Store // stays the caller's
	// OnChange is called with each new Snapshot of what policy lets code see. It must not block.
	OnChange func(*catalog.Snapshot)
	Observer Observer           // may be nil
	Finder   *candidates.Finder // of servers that could be added; nil finds none

	Instances    int           // connections to one server; with more than one, each gets one call at a time; 0 means DefaultInstances
	Idle         time.Duration // after which unused connections end; 0 means DefaultUpstreamIdle
	StartTimeout time.Duration // a call's wait for a server that sets none itself; 0 means DefaultStartTimeout
	CallTimeout  time.Duration // one call to a server that sets none itself; 0 means DefaultCallTimeout
	MaxMessage   int64         // bytes, one message from a server; 0 means upstream.DefaultMaxMessage

	Version string // of thawpool, told to servers
	Log     zerolog.Logger
}

func (c HubConfig) withDefaults() HubConfig {
	if c.Instances == 0 {
		c.Instances = DefaultInstances
	}
	if c.Idle == 0 {
		c.Idle = DefaultUpstreamIdle
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = DefaultStartTimeout
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = DefaultCallTimeout
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = upstream.DefaultMaxMessage
	}
	return c
}

// Validate reports all that cannot be used, joined.
func (c HubConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, field string, value any, format string, args ...any) {
		if !ok {
			errs = append(errs, &pool.FieldError{Field: field, Value: value, Err: fmt.Errorf(format, args...)})
		}
	}
	check(c.Policy != nil, "Policy", nil, "is required")
	check(c.Store != nil, "Store", nil, "is required")
	check(c.Instances >= 1 && c.Instances <= MaxInstances, "Instances", c.Instances, "must be from 1 to %d", MaxInstances)
	check(c.Idle > 0, "Idle", c.Idle, "must be greater than 0")
	check(c.StartTimeout > 0, "StartTimeout", c.StartTimeout, "must be greater than 0")
	check(c.CallTimeout > 0, "CallTimeout", c.CallTimeout, "must be greater than 0")
	check(c.MaxMessage >= 64<<10, "MaxMessage", c.MaxMessage, "must be at least 65536")
	return errors.Join(errs...)
}
