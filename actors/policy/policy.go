package policy

import (
	"errors"
	"fmt"
)

// Tool is what a decision needs to know of a tool.
type Tool struct {
	Name           string // exactly as the server spells it
	ReadOnly       bool   // annotation readOnlyHint is true
	NotDestructive bool   // annotation destructiveHint is false
}

// Config is what the operator set. Zero limits are errors, never "unlimited".
type Config struct {
	Allow           []string // patterns; none means everything that is not denied
	Deny            []string // patterns; they win
	AllowAdd        []string // globs over whole names of servers that code may add; none means that adding is off
	DryRunMutations bool     // calls to tools not marked read-only are planned, not made
	Limits          Limits
}

// DefaultConfig allows every configured server within DefaultLimits, and no adding.
func DefaultConfig() Config { return Config{Limits: DefaultLimits()} }

// Decision is what is to be done with a call.
type Decision int

// The decisions. A Deny comes with an error that says why.
const (
	Allow Decision = iota
	Plan           // record the call and answer as planned
	Deny
)

// ErrDenied is the kind of every refusal by a pattern.
var ErrDenied = errors.New("not allowed by policy")

// Policy decides on calls. It is immutable and safe for concurrent use.
type Policy struct {
	allow, deny, add []Pattern
	dryRun           bool
	limits           Limits
}

// New parses cfg. The error joins everything that is wrong with it.
func New(cfg Config) (*Policy, error) {
	p := &Policy{dryRun: cfg.DryRunMutations, limits: cfg.Limits}
	var errs []error
	list := func(flag string, texts []string, parse func(string) (Pattern, error)) (out []Pattern) {
		for _, text := range texts {
			pattern, err := parse(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", flag, err))
				continue
			}
			out = append(out, pattern)
		}
		return out
	}
	p.allow = list("allow", cfg.Allow, Parse)
	p.deny = list("deny", cfg.Deny, Parse)
	p.add = list("allow-add", cfg.AllowAdd, ParseName)
	if err := cfg.Limits.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Server reports whether the code may know of a server: it is not denied as a whole, and something of it may be allowed.
func (p *Policy) Server(server string) bool {
	if unmatchable(server) {
		return false
	}
	for _, d := range p.deny {
		if d.coversServer(server) {
			return false
		}
	}
	if len(p.allow) == 0 {
		return true
	}
	for _, a := range p.allow {
		if a.matchServer(server) {
			return true
		}
	}
	return false
}

// Call decides on one call. server and tool are the exact names that the call will be routed by.
func (p *Policy) Call(server string, tool Tool) (Decision, error) {
	if unmatchable(server) || unmatchable(tool.Name) {
		return Deny, fmt.Errorf("%w: the name is longer than %d bytes or holds control characters", ErrDenied, maxName)
	}
	for _, d := range p.deny {
		if d.matchTool(server, tool) {
			return Deny, fmt.Errorf("%w: %s.%s is denied by %q", ErrDenied, server, tool.Name, d.text)
		}
	}
	if !p.allowed(server, tool) {
		return Deny, fmt.Errorf("%w: no allow pattern takes in %s.%s", ErrDenied, server, tool.Name)
	}
	if p.dryRun && !tool.ReadOnly {
		return Plan, nil
	}
	return Allow, nil
}

func (p *Policy) allowed(server string, tool Tool) bool {
	if len(p.allow) == 0 {
		return true
	}
	for _, a := range p.allow {
		if a.matchTool(server, tool) {
			return true
		}
	}
	return false
}

// Add decides whether code may add the server that its catalog or registry knows by this whole name, for example
// io.github.user/server. Whether it can then be called, under the name that it gets here, is Server's to say.
func (p *Policy) Add(server string) error {
	if len(p.add) == 0 {
		return fmt.Errorf("%w: adding servers is off; the operator can allow some with --allow-add PATTERN", ErrDenied)
	}
	for _, a := range p.add {
		if !unmatchable(server) && a.matchServer(server) {
			return nil
		}
	}
	return fmt.Errorf("%w: no --allow-add pattern takes in %s", ErrDenied, server)
}

// CanAdd reports whether any server may be added at all.
func (p *Policy) CanAdd() bool { return len(p.add) > 0 }

// Limits are the limits of one run.
func (p *Policy) Limits() Limits { return p.limits }
