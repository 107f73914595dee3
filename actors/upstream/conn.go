package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// Info is what a server told of itself in the handshake, as it came.
type Info struct {
	Name         string
	Version      string
	Protocol     string // the MCP revision in use
	Instructions string
}

// Conn is one live connection. It is safe for concurrent use; calls share it, many in flight at once.
type Conn struct {
	cfg  Config
	info Info

	proc *process // KindStdio
	http *web     // other kinds

	changed chan struct{}
	done    chan struct{}
	life    context.Context // ends with the connection; bounds its streams, not its calls
	end     context.CancelFunc
	renewal chan struct{} // holds one token: who has it may replace the session
	tidying sync.WaitGroup

	mu       sync.Mutex // guards what follows
	sess     *session
	sessions map[*session]struct{} // sess and those before it that are still in use
	lost     error                 // why done is closed
}

// Dial starts or reaches the server and does the handshake. ctx bounds only that: when it ends first, whatever was
// started is killed. The connection lives until Close, Kill, or the server's end.
func Dial(ctx context.Context, cfg Config) (*Conn, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Conn{cfg: cfg, changed: make(chan struct{}, 1), done: make(chan struct{}), renewal: make(chan struct{}, 1)}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	var (
		s   *session
		err error
	)
	if cfg.Kind == KindStdio {
		s, c.info, err = c.dialStdio(ctx)
	} else {
		c.http = newWeb(&c.cfg)
		s, c.info, err = c.dialHTTP(ctx)
	}
	if err == nil {
		err = c.adopt(s)
	}
	if err != nil {
		c.Kill()
		c.wait()
		return nil, err
	}
	return c, nil
}

// Info is what the handshake told.
func (c *Conn) Info() Info { return c.info }

// PID is the child's process id; zero for other kinds.
func (c *Conn) PID() int {
	if c.proc == nil {
		return 0
	}
	return c.proc.pid
}

// Stderr is the end of what a child wrote to its stderr, cleaned and bounded.
func (c *Conn) Stderr() string {
	if c.proc == nil {
		return ""
	}
	return c.proc.lastWords()
}

// Changed gets a value when the server says that its tools have changed. Bursts become one.
func (c *Conn) Changed() <-chan struct{} { return c.changed }

// Done is closed when the connection has ended; Err then says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why Done is closed, nil before that.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// CallTool calls a tool with args, a JSON object, and returns the whole result as the server sent it. When ctx ends the
// server is told, and ctx's error comes back. A result whose isError is set is a result.
func (c *Conn) CallTool(ctx context.Context, tool string, args json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	req := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}}
	raw, err := c.exchange(ctx, nil, func(ctx context.Context, cl *client.Client) error {
		_, err := cl.CallTool(ctx, req)
		return err
	})
	if err == nil && wantsInput(raw) {
		return nil, c.cfg.fail(ErrProtocol, fmt.Errorf("its tool %s wants to ask the user something, and nobody can be asked here", tool))
	}
	return raw, err
}

// wantsInput reports whether a result is no result but a question, which the revisions without a handshake allow.
func wantsInput(raw json.RawMessage) bool {
	if !bytes.Contains(raw, []byte(mcp.ResultTypeInputRequired)) {
		return false
	}
	var r struct {
		Type mcp.ResultType `json:"resultType"`
	}
	return json.Unmarshal(raw, &r) == nil && r.Type == mcp.ResultTypeInputRequired
}

// exchange does one request and returns the answer as it came. A session that the server has forgotten is replaced and
// the request sent once more: a server that does not know the session has not acted on it.
func (c *Conn) exchange(ctx context.Context, set map[string]json.RawMessage, send func(context.Context, *client.Client) error) (json.RawMessage, error) {
	for retried := false; ; retried = true {
		s := c.acquire()
		if s == nil {
			return nil, c.Err()
		}
		e := &exchange{set: set}
		err := send(withExchange(ctx, e), s.cl)
		c.release(s)
		switch failed := e.failed.Load(); {
		case e.err != nil:
			return nil, c.answerError(e.err)
		case e.result != nil: // also when mcp-go cannot decode it
			return e.result, nil
		case failed != nil:
			return nil, c.cfg.fail(failed.kind, failed)
		case err == nil:
			return nil, c.cfg.fail(ErrProtocol, errors.New("it answered with neither a result nor an error"))
		case errors.Is(err, transport.ErrSessionTerminated) && !retried && ctx.Err() == nil:
			if err := c.renew(ctx, s); err != nil {
				return nil, err
			}
		default:
			return nil, c.explain(ctx, err, ErrLost)
		}
	}
}

func (c *Conn) answerError(e *mcp.JSONRPCErrorDetails) error {
	if e.Code == codeUnusable {
		return c.cfg.fail(ErrTooLarge, errors.New(e.Message))
	}
	return c.cfg.rpcError(e)
}

// explain turns an error of mcp-go into one of ours. kind is used where the error itself does not tell.
func (c *Conn) explain(ctx context.Context, err error, kind error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ended := c.Err(); ended != nil {
		return ended
	}
	if c.proc != nil && errors.Is(err, transport.ErrTransportClosed) {
		if errors.Is(kind, ErrLost) {
			<-c.done // watchChild sees to it within exitGrace, and knows more
			return c.Err()
		}
		return c.cfg.fail(kind, errors.New("it "+c.proc.epitaph()))
	}
	under := cause(err)
	var ours *fault
	if errors.As(under, &ours) {
		return c.cfg.fail(ours.kind, ours)
	}
	return c.cfg.fail(kind, under)
}

// finish ends the connection for all its users. The first reason stays.
func (c *Conn) finish(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return
	}
	c.lost = reason
	close(c.done)
	for s := range c.sessions {
		c.tidying.Go(s.close) // fails what is in flight
	}
	c.sessions = nil
}

// errClosed is why a connection that we closed has ended.
var errClosed = errors.New("it was stopped")

// Kill ends the connection at once: a child and its whole group get SIGKILL. It does not wait and may be called again.
func (c *Conn) Kill() {
	c.finish(c.cfg.fail(ErrLost, errClosed))
	c.end()
	if c.proc != nil {
		c.proc.kill()
	}
}

// Close says goodbye: a child may leave by itself before it is made to. When ctx ends it is forced at once. Close returns
// when nothing is left, with an error if a process could not be ended.
func (c *Conn) Close(ctx context.Context) error {
	c.finish(c.cfg.fail(ErrLost, errClosed))
	defer c.wait()
	defer c.end()
	if c.proc != nil {
		return c.proc.stop(ctx)
	}
	return nil
}

// wait returns when all that the connection had running is gone. The goodbye to an HTTP server is cut short.
func (c *Conn) wait() {
	gone := make(chan struct{})
	go func() {
		if c.proc != nil {
			<-c.proc.exited
		}
		c.tidying.Wait()
		close(gone)
	}()
	bound := closeGrace
	if c.proc != nil {
		bound = reapGrace // passed only by a process that cannot be killed
	}
	grace := time.NewTimer(bound)
	defer grace.Stop()
	select {
	case <-gone:
	case <-grace.C:
	}
	if c.http != nil {
		c.http.base.CloseIdleConnections()
	}
}
