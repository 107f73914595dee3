package actors

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"maps"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
)

// The defaults of Config's optional fields: those of the reference bridge where it has them.
const (
	DefaultTimeout    = 30 * time.Second
	DefaultMaxTimeout = 120 * time.Second
	DefaultOutputMax  = 1 << 20 // bytes a stream
	DefaultGrace      = 500 * time.Millisecond
	DefaultProfile    = "default"
)

const (
	// MinOutput keeps head, tail and the mark between them readable.
	MinOutput = 256
	// MaxOutput bounds what one call may make the host keep and send.
	MaxOutput = 64 << 20
	// CodeMax is the largest source in bytes that a call may have. The runner would take more; the frame that carries it is
	// held in memory.
	CodeMax = 32 << 20
)

// Config is what a System is made of. Profiles is required, with at least one.
type Config struct {
	Profiles       map[string]Profile
	DefaultProfile string        // what a Request without a profile gets; "" means DefaultProfile, or the only one
	DefaultTimeout time.Duration // of a Request without one; 0 means DefaultTimeout
	MaxTimeout     time.Duration // the most a Request may ask for; 0 means DefaultMaxTimeout
	OutputMax      int           // bytes kept of each stream, half of them from its beginning; 0 means DefaultOutputMax
	Grace          time.Duration // how long Close lets running calls go on; 0 means DefaultGrace
	Bridge         Bridge        // answers inner calls; nil answers each with an error
	Observer       Observer      // may be nil
	Log            zerolog.Logger
}

// Profile is one pool of like sandboxes.
type Profile struct {
	Runtime runtime.Runtime // boots them; it stays the caller's to Close, after the System's Close
	Pool    pool.Config
	Limits  runtime.Limits // what Runtime applies; here only for the words of an answer
}

// withDefaults fills what was left open.
func (c Config) withDefaults() Config {
	if c.DefaultTimeout == 0 {
		c.DefaultTimeout = DefaultTimeout
	}
	if c.MaxTimeout == 0 {
		c.MaxTimeout = max(DefaultMaxTimeout, c.DefaultTimeout)
	}
	if c.OutputMax == 0 {
		c.OutputMax = DefaultOutputMax
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.DefaultProfile == "" {
		c.DefaultProfile = DefaultProfile
		if len(c.Profiles) == 1 {
			c.DefaultProfile = slices.Collect(maps.Keys(c.Profiles))[0]
		}
	}
	return c
}

// Validate reports all that cannot be used, joined. What it reports of a pool names the profile and the field.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, field string, value any, format string, args ...any) {
		if !ok {
			errs = append(errs, &pool.FieldError{Field: field, Value: value, Err: fmt.Errorf(format, args...)})
		}
	}
	check(len(c.Profiles) > 0, "Profiles", len(c.Profiles), "must hold at least one profile")
	_, known := c.Profiles[c.DefaultProfile]
	check(known || len(c.Profiles) == 0, "DefaultProfile", c.DefaultProfile, "is none of the profiles")
	check(c.DefaultTimeout > 0, "DefaultTimeout", c.DefaultTimeout, "must be greater than 0")
	check(c.MaxTimeout >= c.DefaultTimeout, "MaxTimeout", c.MaxTimeout, "must be at least DefaultTimeout (%s)", c.DefaultTimeout)
	check(c.OutputMax >= MinOutput && c.OutputMax <= MaxOutput, "OutputMax", c.OutputMax, "must be from %d to %d", MinOutput, MaxOutput)
	check(c.Grace > 0, "Grace", c.Grace, "must be greater than 0")
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		p := c.Profiles[name]
		check(p.Runtime != nil, "Profiles", name, "has no runtime")
		if err := p.Pool.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("profile %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
