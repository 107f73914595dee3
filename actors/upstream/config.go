package upstream

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// Kind is how a server is reached.
type Kind string

// The kinds of servers. KindHTTP falls back to KindSSE where a server only knows the older form.
const (
	KindStdio Kind = "stdio"
	KindHTTP  Kind = "http"
	KindSSE   Kind = "sse"
)

// DefaultMaxMessage bounds one message from a server, in bytes: far above what a tool's result should be, and a few of
// them at once still fit the host.
const DefaultMaxMessage = 16 << 20

// DefaultMaxQueued bounds what waits for a child that does not read its stdin, in bytes: two of the largest messages.
const DefaultMaxQueued = 2 * DefaultMaxMessage

// Config is one server and how to speak to it. Args, Env, URL and Headers may hold secrets and are never logged.
type Config struct {
	Name string // as configured; in errors and logs
	Kind Kind

	Command string            // KindStdio: looked up on the child's own PATH unless it has a slash
	Args    []string          // KindStdio
	Env     map[string]string // KindStdio: added to the safe base environment, and wins over it
	Dir     string            // KindStdio: working directory; empty means thawpool's own

	URL     string            // KindHTTP, KindSSE
	Headers map[string]string // KindHTTP, KindSSE

	MaxMessage int64  // bytes, one message from the server; zero means DefaultMaxMessage
	MaxQueued  int    // bytes, what may wait for a child that does not read; zero means DefaultMaxQueued
	Version    string // of thawpool, told to the server
	Log        zerolog.Logger
	Guard      *Guard // ends children whose thawpool was killed; may be nil
}

// Times of the life of a connection. They are bounds for servers that misbehave; a good one never meets them.
const (
	// exitGrace is how long a child may take to leave after its stdin closed, and again after SIGTERM.
	exitGrace = 2 * time.Second
	// drainGrace is how long what a dead child wrote is still read while strangers hold its pipes open.
	drainGrace = 300 * time.Millisecond
	// reapGrace bounds the wait for a killed child: only a process in an uninterruptible sleep takes longer.
	reapGrace = 5 * time.Second
	// closeGrace bounds the goodbye to an HTTP server.
	closeGrace = 2 * time.Second
)

func (c *Config) validate() error {
	if c.MaxMessage == 0 {
		c.MaxMessage = DefaultMaxMessage
	}
	if c.MaxQueued == 0 {
		c.MaxQueued = DefaultMaxQueued
	}
	switch c.Kind {
	case KindStdio:
		if c.Command == "" {
			return c.fail(ErrStart, errors.New("its definition has no command"))
		}
	case KindHTTP, KindSSE:
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return c.fail(ErrStart, errors.New("its url is not an http or https address")) // the url may hold a secret
		}
	default:
		return c.fail(ErrStart, fmt.Errorf("transport %q is not one of stdio, http, sse", c.Kind))
	}
	return nil
}

// secretWords mark names of variables whose values must not be repeated in errors.
var secretWords = []string{"KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CRED", "COOKIE", "BEARER", "DSN", "PRIVATE"}

// minSecret is the shortest value that is hidden: hiding a "1" or "on" would only garble messages.
const minSecret = 6

// redact removes the entry's own secrets from text that a server or a library wrote.
func (c *Config) redact(s string) string {
	hide := func(value string) {
		if len(value) >= minSecret {
			s = strings.ReplaceAll(s, value, "[hidden]")
		}
	}
	for _, v := range c.Headers {
		hide(v)
		if _, token, ok := strings.Cut(v, " "); ok { // "Bearer TOKEN"
			hide(token)
		}
	}
	for name, v := range c.Env {
		upper := strings.ToUpper(name)
		for _, word := range secretWords {
			if strings.Contains(upper, word) {
				hide(v)
				break
			}
		}
	}
	if u, err := url.Parse(c.URL); err == nil {
		if password, ok := u.User.Password(); ok {
			hide(password)
		}
		for _, values := range u.Query() {
			for _, v := range values {
				hide(v)
			}
		}
	}
	return s
}
