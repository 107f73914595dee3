package actors

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/upstream"
)

// ServerCheck is what trying one server gave.
type ServerCheck struct {
	Name         string   `json:"name"`
	Transport    string   `json:"transport"`
	Where        string   `json:"where"` // file:line of its definition
	OK           bool     `json:"ok"`
	Error        string   `json:"error,omitempty"`
	Version      string   `json:"version,omitempty"`  // as the server gave it
	Protocol     string   `json:"protocol,omitempty"` // the MCP revision in use
	Tools        int      `json:"tools"`              // that policy lets code call
	Hidden       int      `json:"hidden,omitempty"`   // that it does not
	Problems     []string `json:"problems,omitempty"` // tools that cannot be used, and odd ones
	ConnectMS    float64  `json:"connectMs"`          // start, handshake and list of tools
	Instructions string   `json:"instructions,omitempty"`
}

// Check connects to a server, by name or alias, and tells what it found. Its error is that of an unknown name; that the
// server cannot be used is a result.
func (h *Hub) Check(ctx context.Context, name string) (ServerCheck, error) {
	def, err := h.catalog.Snapshot().Resolve(name)
	if err != nil {
		return ServerCheck{}, err
	}
	c := ServerCheck{Name: def.Name, Transport: string(def.Transport), Where: def.Source.String()}
	since := time.Now()
	l, err := h.borrow(ctx, def, true)
	c.ConnectMS = ms(time.Since(since))
	if err != nil {
		c.Error = err.Error()
		return c, nil
	}
	defer l.release()
	c.OK, c.Protocol = true, l.conn.Info().Protocol
	snap := h.catalog.Snapshot()
	d, err := snap.Describe(def.Name, h.show)
	if err != nil {
		return c, err
	}
	c.Version, c.Instructions, c.Tools = d.Version, d.Instructions, d.Tools
	all, err := snap.Tools(def.Name, nil)
	if err != nil {
		return c, err
	}
	c.Hidden = len(all) - c.Tools
	c.Problems = append(snap.ToolProblems(def.Name), oddTools(all)...)
	return c, nil
}

func oddTools(tools []catalog.ToolInfo) (odd []string) {
	for _, t := range tools {
		if t.Problem != "" {
			odd = append(odd, t.Name+": "+t.Problem)
		}
	}
	return odd
}

// ReadTools connects to one server without a Hub, reads its tools and disconnects again: what a shell's check does. It
// takes at most the server's start timeout, or DefaultStartTimeout.
func ReadTools(ctx context.Context, def config.Server, version string, log zerolog.Logger) (l catalog.Listing, err error) {
	limit := def.StartTimeout
	if limit == 0 {
		limit = DefaultStartTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var guard upstream.Guard
	defer guard.Close()
	conn, err := upstream.Dial(ctx, upstreamConfig(def, upstream.Config{Version: version, Log: log, Guard: &guard}))
	if err != nil {
		return catalog.Listing{}, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	tools, _, err := conn.ListTools(ctx)
	if err != nil {
		return catalog.Listing{}, err
	}
	return listingOf(conn, tools), nil
}
