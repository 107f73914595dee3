package front

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/thawpool/thawpool/actors"
)

// maxListens bounds the open subscriptions/listen requests of one session.
const maxListens = 8

// call is a request that runs beside the reader and can be cancelled.
type call struct {
	s      *session
	id     string          // of the call in the log, in the order of reading
	queued time.Time       // when it was read
	token  json.RawMessage // the client's progress token with its type, nil when it gave none
	args   json.RawMessage // of run_python, which mcp-go is spared
	trace  traceContext    // of the client
	end    context.CancelCauseFunc
	sent   chan struct{} // closed once the answer was written, or never will be
	listen bool

	cancelled bool // guarded by session.mu: the client wants no answer
}

type callKey struct{}

// callFrom gives the call that a handler serves, nil outside of a session.
func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// startCall begins a call, or refuses it.
func (s *session) startCall(env envelope, raw []byte, to reply) {
	c := &call{s: s, queued: time.Now(), sent: make(chan struct{}), listen: *env.Method == string(mcp.MethodSubscriptionsListen)}
	if !c.listen {
		c.id = s.f.requestID()
		var rerr *rpcError
		if raw, rerr = c.takeArguments(env, raw); rerr != nil {
			to(encode(env.ID, nil, rerr), nil)
			return
		}
	}
	var ctx context.Context
	ctx, c.end = context.WithCancelCause(context.WithValue(s.ctx, callKey{}, c))
	key := idKey(env.ID)
	admission := s.admit(key, c)
	if admission != admitted {
		c.end(nil)
	}
	switch admission {
	case admitted:
	case duplicate:
		to(encode(env.ID, nil, &rpcError{Code: mcp.INVALID_REQUEST,
			Message: fmt.Sprintf("Invalid request: id %s belongs to a request that is still running", env.ID)}), nil)
		return
	case busy:
		s.log.Warn().Str("request", c.id).Int("in_flight", s.f.cfg.MaxInFlight).Msg("call refused: too many at once")
		to(encode(env.ID, s.f.toResult(s.busy(c), ""), nil), nil)
		return
	case tooManyListens:
		to(encode(env.ID, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf(
			"Invalid request: %d subscriptions/listen requests are open, the most there may be", maxListens)}), nil)
		return
	}
	s.wg.Go(func() {
		line := s.handle(ctx, env.ID, raw)
		c.end(nil)
		if !s.settle(key, c) {
			line = nil
		}
		to(line, func() { close(c.sent); s.release() })
	})
}

// takeArguments checks the params of a tools/call. From one of run_python it takes the arguments out of the message: code
// may be many MiB, and mcp-go v1.2.1 parses a message five times, to float64 where it has numbers.
func (c *call) takeArguments(env envelope, raw []byte) ([]byte, *rpcError) {
	var params map[string]json.RawMessage
	if err := json.Unmarshal(env.Params, &params); err != nil || params == nil {
		return nil, &rpcError{Code: mcp.INVALID_PARAMS, Message: "Invalid params: tools/call takes an object with name and arguments"}
	}
	c.token = progressToken(params["_meta"])
	c.trace = traceFrom(params["_meta"])
	var name string
	if err := json.Unmarshal(params["name"], &name); err != nil || name == "" {
		return nil, &rpcError{Code: mcp.INVALID_PARAMS, Message: "Invalid params: name must be the name of a tool"}
	}
	if name != toolName {
		return raw, nil
	}
	c.args = params["arguments"]
	delete(params, "arguments")
	return encodeRequest(env.ID, *env.Method, params), nil
}

type admission int

const (
	admitted admission = iota
	duplicate
	busy
	tooManyListens
)

func (s *session) admit(key string, c *call) admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.inFlight[key]; ok {
		return duplicate
	}
	if s.taken >= s.f.cfg.MaxInFlight {
		return busy
	}
	if c.listen {
		n := 0
		for _, o := range s.inFlight {
			if o.listen {
				n++
			}
		}
		if n >= maxListens {
			return tooManyListens
		}
	}
	s.inFlight[key] = c
	s.taken++
	return admitted
}

// settle ends the time in which a call can be cancelled, and tells whether it is to be answered.
func (s *session) settle(key string, c *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inFlight, key)
	return !c.cancelled
}

// release gives a call's place back, after its answer was written.
func (s *session) release() {
	s.mu.Lock()
	s.taken--
	s.mu.Unlock()
}

// cancel ends the call with that id, if there is one, and takes its answer away.
func (s *session) cancel(key string) {
	s.mu.Lock()
	c := s.inFlight[key]
	if c != nil {
		c.cancelled = true
	}
	s.mu.Unlock()
	if c != nil {
		c.end(ErrCancelled)
	}
}

// endListens ends the requests that run until they are ended.
func (s *session) endListens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.inFlight {
		if c.listen {
			c.end(ErrInputEnded)
		}
	}
}

func (s *session) busy(c *call) actors.Result {
	return rejected(c.id, "Busy", fmt.Sprintf("%d calls are running or waiting, the most this server takes in; "+
		"call again when some have been answered", s.f.cfg.MaxInFlight))
}

// rejected is the result of a call that never started.
func rejected(id, kind, message string) actors.Result {
	return actors.Result{Status: actors.StatusRejected, Error: &actors.RunError{Type: kind, Message: message},
		Receipt: actors.Receipt{RequestID: id}}
}

// runPython is the handler of the tool.
func (f *Front) runPython(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c := callFrom(ctx)
	r := actors.Request{Queued: time.Now()}
	args := req.Params.RawArguments
	if c != nil {
		r.ID, r.Queued, r.Sent, args = c.id, c.queued, c.sent, c.args
		r.TraceParent, r.TraceState = c.trace.Parent, c.trace.State
	} else {
		r.ID = f.requestID()
	}
	if err := f.arguments(args, &r); err != nil {
		return f.toResult(rejected(r.ID, "ArgumentError", err.Error()), ""), nil
	}
	var rec *Recorder
	if f.cfg.Outputs != nil {
		rec = f.cfg.Outputs.Record(r.ID)
		defer rec.Drop()
		r.Output = rec.Write
	}
	defer c.heartbeat(f.cfg.Heartbeat)()
	res := f.cfg.Runner.Run(ctx, r)
	if res.Receipt.RequestID == "" {
		res.Receipt.RequestID = r.ID
	}
	if rec != nil && res.Truncated {
		rec.Keep()
	}
	return f.toResult(res, protocolOf(ctx)), nil
}

// protocolOf gives the client's revision of MCP, "" when it is not known.
func protocolOf(ctx context.Context) string {
	if v := server.RequestProtocolVersion(ctx); v != "" {
		return v
	}
	if c := callFrom(ctx); c != nil {
		return c.s.ProtocolVersion()
	}
	return ""
}

// progress is the params of notifications/progress.
type progress struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress int             `json:"progress"` // counts the heartbeats: always growing
	Message  string          `json:"message"`
}

// heartbeat reports progress every d until the returned function has returned. It does nothing without a token.
func (c *call) heartbeat(d time.Duration) (stop func()) {
	if c == nil || c.token == nil {
		return func() {}
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		t := time.NewTicker(d)
		defer t.Stop()
		for beat := 1; ; beat++ {
			select {
			case <-done:
				return
			case <-t.C:
				c.beat(beat)
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// beat sends one heartbeat, unless the client is so far behind that it would only pile up.
func (c *call) beat(n int) {
	if c.s.w.crowded() {
		return
	}
	elapsed := time.Since(c.queued).Round(time.Second)
	line, err := marshal(notification{JSONRPC: mcp.JSONRPC_VERSION, Method: "notifications/progress",
		Params: progress{Token: c.token, Progress: n, Message: fmt.Sprintf("running for %v", elapsed)}})
	if err == nil {
		c.s.w.send(line, nil)
	}
}

// progressToken gives the raw token of a request's _meta: a string or an integer, else nil.
func progressToken(meta []byte) json.RawMessage {
	var m struct {
		Token json.RawMessage `json:"progressToken"`
	}
	if len(meta) == 0 || json.Unmarshal(meta, &m) != nil || !validID(m.Token) {
		return nil
	}
	return m.Token
}
