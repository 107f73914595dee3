package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/front"
	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// Config is everything that can be set. options.go says by which names, docs/configuration.md what each means.
type Config struct {
	Pool     pool.Config
	PoolSize poolSize // goes into Pool

	Timeout    time.Duration
	MaxTimeout time.Duration
	Limits     runtime.Limits
	OutputMax  int64 // bytes of each of stdout and stderr in an answer
	OutputMode string

	Image     string
	Preload   []string // modules imported before the freeze
	Runtime   string   // containerd's name of a runtime; "" means thawpool's own shim
	ShimTasks int      // sandboxes one shim serves at most

	Profile       string                    // the one of calls that name none
	ProfileTables map[string]map[string]any // of the file; Validate makes Profiles of them
	Profiles      map[string]Profile        // besides the default one, which the fields above are

	DaemonIdle        time.Duration
	ContainerdAddress string // an existing rootless containerd in place of the private one; "" means the private one
	StateDir          string
	BinDir            string // where containerd, runc and rootlesskit are

	Servers ServersConfig
	Ops     OpsConfig

	LogLevel  string
	LogFormat string
}

// What has no place in another room's defaults.
const (
	defaultDaemonIdle = 300 * time.Second // as the reference bridge
	defaultShimTasks  = 16                // few are lost with one shim, and its memory is shared by many
)

// defaultConfig is what holds where nothing is set.
func defaultConfig() Config {
	p := pool.Default()
	p.Refill = max(p.Refill, goruntime.GOMAXPROCS(0)) // a boot computes nearly all of its time: more only slow each other
	return Config{
		Pool:       p,
		PoolSize:   poolSize{N: p.Size},
		Timeout:    actors.DefaultTimeout,
		MaxTimeout: actors.DefaultMaxTimeout,
		Limits:     runtime.DefaultLimits(),
		OutputMax:  actors.DefaultOutputMax,
		OutputMode: string(front.ModeCompact),
		Image:      "default",
		ShimTasks:  defaultShimTasks,
		Profile:    actors.DefaultProfile,
		DaemonIdle: defaultDaemonIdle,
		StateDir:   defaultStateDir(),
		BinDir:     defaultBinDir(),
		Servers:    defaultServersConfig(),
		LogLevel:   "info",
		LogFormat:  "auto",
	}
}

// defaultStateDir follows the XDG base directories. Without a home there is none, which Validate tells.
func defaultStateDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "thawpool")
	}
	home, err := os.UserHomeDir()
	if err != nil { // a service of the system may have no HOME
		u, err := host.LookupUser(os.Geteuid())
		if err != nil {
			return ""
		}
		home = u.HomeDir
	}
	return filepath.Join(home, ".local", "state", "thawpool")
}

// defaultBinDir is where this program lies: make puts the pinned tools beside it.
func defaultBinDir() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(self)
}

// FieldError names the option that cannot be used and why.
type FieldError struct {
	Field  string // its long flag without dashes
	Source string // where it was set: a flag, a variable, a file; "" when only the whole is wrong
	Err    error
}

func (e *FieldError) Error() string {
	if e.Source == "" {
		return e.Field + ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s (%s): %v", e.Field, e.Source, e.Err)
}

func (e *FieldError) Unwrap() error { return e.Err }

// The least that still lets a sandbox boot and be of use, found by trying.
const (
	minMemory = 48 << 20
	minPIDs   = 8
	minTmp    = 1 << 20
)

// Validate reports everything that cannot be used, each as a *FieldError, joined. It completes what follows from other
// fields.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, field, format string, args ...any) {
		if !ok {
			errs = append(errs, &FieldError{Field: field, Err: fmt.Errorf(format, args...)})
		}
	}
	c.PoolSize.apply(&c.Pool)
	top := c.topLevel()
	top.check(check)
	p := c.Pool
	check(p.Refill >= 1, "pool-refill", "must be at least 1 and is %d", p.Refill)
	check(p.MaxAge >= pool.MinAge, "pool-max-age", "must be at least %v and is %v", pool.MinAge, p.MaxAge)
	check(slices.Contains(poolEmpties, string(p.Empty)), "pool-empty", "must be one of %s and is %q", strings.Join(poolEmpties, ", "), p.Empty)
	check(p.Queue >= 0, "queue", "must be 0 or more and is %d", p.Queue)
	check(p.QueueWait > 0, "queue-wait", "must be more than 0 and is %v", p.QueueWait)
	check(c.MaxTimeout >= time.Second && c.MaxTimeout <= 24*time.Hour, "max-timeout", "must be from 1s to 24h and is %v", c.MaxTimeout)
	check(c.Timeout >= front.MinTimeout && c.Timeout <= c.MaxTimeout, "timeout", "must be from %v to max-timeout (%v) and is %v",
		front.MinTimeout, c.MaxTimeout, c.Timeout)
	check(c.OutputMax >= actors.MinOutput && c.OutputMax <= actors.MaxOutput, "output-max", "must be from %s to %s and is %s",
		sizeText(actors.MinOutput), sizeText(actors.MaxOutput), sizeText(c.OutputMax))
	check(slices.Contains(outputModes, c.OutputMode), "output-mode", "must be one of %s and is %q", strings.Join(outputModes, ", "), c.OutputMode)
	check(c.ShimTasks >= 1, "shim-tasks", "must be at least 1 and is %d", c.ShimTasks)
	check(c.DaemonIdle >= time.Second, "daemon-idle", "must be at least 1s and is %v", c.DaemonIdle)
	check(filepath.IsAbs(c.StateDir), "state-dir", "must be an absolute path and is %q", c.StateDir)
	check(filepath.IsAbs(c.BinDir), "bin-dir", "must be an absolute path and is %q", c.BinDir)
	check(c.ContainerdAddress == "" || filepath.IsAbs(c.ContainerdAddress), "containerd-address", "must be the absolute path of a socket and is %q", c.ContainerdAddress)
	check(slices.Contains(logLevels, c.LogLevel), "log-level", "must be one of %s and is %q", strings.Join(logLevels, ", "), c.LogLevel)
	check(slices.Contains(logFormats, c.LogFormat), "log-format", "must be one of %s and is %q", strings.Join(logFormats, ", "), c.LogFormat)
	errs = append(errs, c.applyProfiles()...)
	errs = append(errs, c.Servers.validate()...)
	return errors.Join(append(errs, c.Ops.validate()...)...)
}

var (
	poolEmpties = []string{string(pool.EmptyWait), string(pool.EmptyCold), string(pool.EmptyRefuse)}
	outputModes = []string{string(front.ModeCompact), string(front.ModeTOON)}
	logLevels   = []string{"trace", "debug", "info", "warn", "error"}
	logFormats  = []string{"auto", "json", "console"}
)

// autoSizeMin is the least that --pool-size auto shrinks to: one to answer with and one for the call after it.
const autoSizeMin = 2

// apply puts --pool-size into the pool's terms.
func (v poolSize) apply(p *pool.Config) {
	p.Auto = v.Auto
	if !v.Auto {
		p.Size = v.N
		return
	}
	p.SizeMin, p.SizeMax = min(autoSizeMin, p.Max), p.Max
	p.Size = min(max(pool.Default().Size, p.SizeMin), p.SizeMax)
}

// isModule tells whether name is a dotted Python name of ASCII letters.
func isModule(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		for i, c := range part {
			letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
			if !letter && (i == 0 || c < '0' || c > '9') {
				return false
			}
		}
		if part == "" {
			return false
		}
	}
	return true
}
