package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// noResponseTimeout switches mcp-go's own bound for answers over SSE off: the caller's context is the bound.
const noResponseTimeout = 24 * time.Hour

// dialStdio starts the child and does the handshake on its pipes.
func (c *Conn) dialStdio(ctx context.Context) (s *session, info Info, err error) {
	if c.proc, err = startProcess(&c.cfg); err != nil {
		return nil, Info{}, err
	}
	out := newLines(c.proc.stdout, c.cfg.MaxMessage, c.cfg.Log)
	c.tidying.Go(func() { c.watchChild(out.ended) })
	w := &wire{Interface: transport.NewIO(out, c.proc.stdin, nil)}
	s, info, err = c.handshake(ctx, w, withHandshake)
	if wantsLater(err) {
		s, info, err = c.handshake(ctx, w, withoutHandshake)
	}
	if err != nil {
		return nil, info, c.dialError(ctx, err)
	}
	return s, info, nil
}

// watchChild ends the connection when the child has ended, and the child when it has closed its stdout: nothing can be
// had from it any more.
func (c *Conn) watchChild(stdoutEnded <-chan struct{}) {
	select {
	case <-c.proc.exited:
	case <-stdoutEnded:
		wait := time.NewTimer(exitGrace)
		defer wait.Stop()
		select {
		case <-c.proc.exited:
		case <-wait.C:
			c.cfg.Log.Warn().Msg("server closed its output without ending; it is killed")
			c.proc.kill()
			<-c.proc.exited
		}
	}
	// What it wrote last is still being read; own has set a deadline for that. A closed client reads no more.
	select {
	case <-stdoutEnded:
	case <-c.done:
	}
	c.finish(c.cfg.fail(ErrLost, errors.New("it "+c.proc.epitaph())))
	_ = c.proc.stdin.Close()
	_ = c.proc.stdout.Close()
}

// dialHTTP opens a session by streamable HTTP, or by the older form where that is configured or all that the server
// knows.
func (c *Conn) dialHTTP(ctx context.Context) (*session, Info, error) {
	var (
		s    *session
		info Info
		err  = errOlder
	)
	if c.cfg.Kind != KindSSE {
		s, info, err = c.dialStreamable(ctx, withHandshake, transport.WithContinuousListening()) //nolint:staticcheck // the revisions that need it are those that servers speak
		if wantsLater(err) || errors.Is(err, errOlder) {
			s, info, err = c.dialStreamable(ctx, withoutHandshake)
		}
	}
	if errors.Is(err, errOlder) {
		s, info, err = c.dialSSE(ctx)
		if err != nil && c.cfg.Kind != KindSSE {
			err = fmt.Errorf("streamable HTTP is refused there, and the older form too: %w", cause(err))
		}
	}
	if err != nil {
		return nil, info, c.dialError(ctx, err)
	}
	return s, info, nil
}

// errOlder: the server refuses streamable HTTP and may know the older form.
var errOlder = transport.ErrLegacySSEServer

// dialStreamable makes a new transport each time: mcp-go v1.2.1 keeps what a failed handshake left in it. Its
// continuous listening, which only the revisions with a handshake have, is how one hears of changed tools there.
func (c *Conn) dialStreamable(ctx context.Context, version client.ClientOption, opts ...transport.StreamableHTTPCOption) (*session, Info, error) {
	opts = append(opts,
		transport.WithHTTPBasicClient(c.http.streamable),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)), // every error that matters is returned too
	)
	t, err := transport.NewStreamableHTTP(c.cfg.URL, opts...)
	if err != nil {
		return nil, Info{}, err
	}
	return c.handshake(ctx, &httpWire{wire{Interface: t, cancelGoneRequests: true}, t}, version)
}

func (c *Conn) dialSSE(ctx context.Context) (*session, Info, error) {
	t, err := transport.NewSSE(c.cfg.URL,
		transport.WithHTTPClient(c.http.older),
		transport.WithSSELogger(slog.New(slog.DiscardHandler)),
		transport.WithResponseTimeout(noResponseTimeout),
		transport.WithEndpointTimeout(noResponseTimeout), // ctx is the bound here too
	)
	if err != nil {
		return nil, Info{}, err
	}
	t.SetConnectionLostHandler(func(err error) {
		lost := &fault{ErrLost, "it closed its event stream"}
		errors.As(err, &lost)
		c.finish(c.cfg.fail(lost.kind, lost))
	})
	return c.handshake(ctx, &httpWire{wire{Interface: t, cancelGoneRequests: true}, t}, withHandshake)
}

// The two eras of MCP. Almost every server speaks the first, and one that does not says so at once; mcp-go v1.2.1's
// probe for the second waits five seconds for servers that ignore what they do not know.
var (
	withHandshake    = client.WithProtocolVersion(mcp.LATEST_LEGACY_PROTOCOL_VERSION)
	withoutHandshake = client.WithDiscoverTimeout(-1)
)

func wantsLater(err error) bool {
	var unsupported mcp.UnsupportedProtocolVersionError
	return errors.Is(err, mcp.ErrMethodNotFound) || errors.As(err, &unsupported)
}

// handshake initialises a session on w. Its errors are mcp-go's.
func (c *Conn) handshake(ctx context.Context, w transport.Interface, version client.ClientOption) (*session, Info, error) {
	life, end := context.WithCancel(c.life)
	stopOnTimeout := context.AfterFunc(ctx, end) // Start takes the context of the streams' whole life
	cl := client.NewClient(w, version)
	cl.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == methodListChanged { // this is mcp-go's read loop: it must not wait
			c.noteChanged()
		}
	})
	info, err := c.initialize(ctx, life, cl)
	if !stopOnTimeout() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if c.proc == nil {
			_ = w.Close() // the pipes of a child can be tried again
		}
		end()
		return nil, Info{}, err
	}
	return &session{cl: cl, end: end}, info, nil
}

func (c *Conn) initialize(ctx, life context.Context, cl *client.Client) (Info, error) {
	if err := cl.Start(life); err != nil {
		return Info{}, err
	}
	req := mcp.InitializeRequest{}
	req.Params.ClientInfo = mcp.Implementation{Name: "thawpool", Version: c.cfg.Version}
	res, err := cl.Initialize(ctx, req)
	if err != nil {
		return Info{}, err
	}
	if mcp.IsModernProtocol(res.ProtocolVersion) {
		// There no notification comes unasked. A server without this one just never tells.
		if _, err := cl.ListenAsync(life, mcp.SubscriptionFilter{ToolsListChanged: true}, nil); err != nil {
			return Info{}, err
		}
	}
	return Info{
		Name: res.ServerInfo.Name, Version: res.ServerInfo.Version,
		Protocol: res.ProtocolVersion, Instructions: res.Instructions,
	}, nil
}

// dialError says why no session came to be.
func (c *Conn) dialError(ctx context.Context, err error) error {
	var unsupported mcp.UnsupportedProtocolVersionError
	switch {
	case ctx.Err() != nil:
		return c.cfg.fail(ErrStart, errors.New("it did not finish its handshake in time"+c.stderrNote()))
	case errors.As(err, &unsupported):
		return c.cfg.fail(ErrProtocol, fmt.Errorf("it speaks MCP %q, which is not known here", unsupported.Version))
	case c.proc != nil && !errors.Is(err, transport.ErrTransportClosed):
		// The pipes are whole: what it answered was an error, or no answer to initialize.
		return c.cfg.fail(ErrStart, fmt.Errorf("it refused the handshake: %w%s", err, c.stderrNote()))
	}
	return c.explain(ctx, err, ErrStart)
}

func (c *Conn) stderrNote() string {
	if words := c.Stderr(); words != "" {
		return "; the end of its stderr:\n" + words
	}
	return ""
}
