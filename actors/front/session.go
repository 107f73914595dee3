package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/rs/zerolog"
)

// session is one client on one pair of streams.
type session struct {
	f   *Front
	w   *writer
	log zerolog.Logger
	clientState

	ctx context.Context // of all calls; carries the session for mcp-go
	end context.CancelCauseFunc
	wg  sync.WaitGroup // running calls

	mu       sync.Mutex
	inFlight map[string]*call // by idKey; calls that may still be answered
	taken    int              // calls whose answer is not written yet
}

// incoming is what the reading goroutine hands over.
type incoming struct {
	line, id []byte
	err      error
}

// Serve answers one client until its input ends, ctx ends or the output breaks, and returns once the calls it took in
// have ended, within Config.Drain and two EndTime. Only the goroutine that reads in may outlive it, until its Read
// returns. An output that the client closed is a normal end.
func (f *Front) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &session{f: f, w: newWriter(out), inFlight: map[string]*call{}}
	s.name = fmt.Sprintf("stdio-%d", f.sess.Add(1))
	s.notes = s.w.notes
	s.log = f.log.With().Str("session", s.name).Logger()
	s.ctx, s.end = context.WithCancelCause(f.mcp.WithContext(context.WithoutCancel(ctx), s))
	if err := f.mcp.RegisterSession(ctx, s); err != nil {
		return fmt.Errorf("register session: %w", err)
	}
	defer f.mcp.UnregisterSession(ctx, s.name)

	lines, stop := make(chan incoming), make(chan struct{})
	defer close(stop)
	go f.read(in, lines, stop)
	err := s.loop(ctx, lines)
	if f.cfg.OnEnd != nil {
		f.cfg.OnEnd()
	}
	s.finish()
	return err
}

// read hands over one line at a time until the input ends or stop is closed.
func (f *Front) read(in io.Reader, lines chan<- incoming, stop <-chan struct{}) {
	r := newLineReader(in, f.cfg.MaxMessage)
	for {
		line, id, err := r.next()
		select {
		case lines <- incoming{line, id, err}:
		case <-stop:
			return
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
	}
}

// loop takes in messages until there are no more. Its error is what went wrong with the streams.
func (s *session) loop(ctx context.Context, lines <-chan incoming) error {
	for {
		if s.w.crowded() {
			select {
			case <-s.w.room:
				continue
			case <-ctx.Done():
				return nil
			case <-s.w.failed:
				return s.writeError()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.w.failed:
			return s.writeError()
		case in := <-lines:
			switch {
			case in.err == nil:
				s.receive(in.line)
			case errors.Is(in.err, errTooLong):
				s.w.send(encode(in.id, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf(
					"Invalid request: the message is longer than %d bytes, the most that one line may have", s.f.cfg.MaxMessage)}), nil)
			case errors.Is(in.err, io.EOF):
				s.log.Debug().Msg("end of input")
				return nil
			default:
				return fmt.Errorf("read: %w", in.err)
			}
		}
	}
}

// writeError ends all calls, whose answers nobody can have, and tells whether the broken output is worth a word.
func (s *session) writeError() error {
	s.end(ErrInputEnded)
	if err := s.w.err; !errors.Is(err, syscall.EPIPE) && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("write: %w", err)
	}
	s.log.Debug().Msg("the client closed the output")
	return nil
}

// finish drains the calls, ends what is left of them, and lets the writer write the last answers.
func (s *session) finish() {
	s.endListens()
	calls := make(chan struct{})
	go func() { s.wg.Wait(); close(calls) }()
	if !waitFor(calls, s.f.cfg.Drain, s.w.failed) {
		s.end(ErrInputEnded)
		if !waitFor(calls, EndTime, nil) {
			s.log.Warn().Msg("calls did not end in time")
		}
	}
	s.end(ErrInputEnded)
	s.w.close()
	if !waitFor(s.w.ended, EndTime, nil) {
		s.log.Debug().Msg("the client does not read its last answers")
	}
}

// waitFor tells whether done was closed within d and before give.
func waitFor(done <-chan struct{}, d time.Duration, give <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
	case <-give:
	}
	return false
}

// receive takes in one line: one message or a batch of them.
func (s *session) receive(line []byte) {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")))
	if len(line) == 0 {
		return
	}
	if line[0] == '[' {
		s.receiveBatch(line)
		return
	}
	s.receiveOne(line, nil, s.answer)
}

// reply sends an answer away, or, with nil, says that there is none. free is called once the answer needs no memory.
type reply func(line []byte, free func())

func (s *session) answer(line []byte, free func()) {
	if line == nil {
		if free != nil {
			free()
		}
		return
	}
	s.w.send(line, free)
}

// receiveOne handles one message; in is nil outside of a batch. to is called exactly once, maybe later.
func (s *session) receiveOne(raw []byte, in *batch, to reply) {
	env, id, rerr := open(raw)
	switch {
	case rerr != nil:
		to(encode(id, nil, rerr), nil)
	case env.Method == nil: // an answer: we ask the client for nothing
		to(nil, nil)
	case len(env.ID) == 0:
		s.notified(*env.Method, env.Params, raw)
		to(nil, nil)
	case in != nil && *env.Method == string(mcp.MethodInitialize):
		to(encode(id, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: "Invalid request: initialize cannot be part of a batch"}), nil)
	case in != nil && in.full():
		to(encode(id, nil, &rpcError{Code: mcp.INVALID_REQUEST, Message: fmt.Sprintf(
			"Invalid request: the answers to this batch have more than %d MiB already; send this request by itself", roomBytes>>20)}), nil)
	case *env.Method == string(mcp.MethodToolsCall), *env.Method == string(mcp.MethodSubscriptionsListen):
		s.startCall(env, raw, to)
	default:
		to(s.handle(s.ctx, id, raw), nil)
	}
}

// notified handles a notification. Unknown ones and wrong ones are nobody's.
func (s *session) notified(method string, params, raw []byte) {
	if method != string(mcp.MethodNotificationCancelled) {
		s.f.mcp.HandleMessage(s.ctx, raw)
		return
	}
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) == nil && validID(p.RequestID) {
		s.cancel(idKey(p.RequestID))
	}
}

// handle lets mcp-go answer one request. A panic is that request's alone.
func (s *session) handle(ctx context.Context, id json.RawMessage, raw []byte) (line []byte) {
	code := new(atomic.Int64)
	defer func() {
		if p := recover(); p != nil {
			s.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("request panicked")
			line = encode(id, nil, &rpcError{Code: mcp.INTERNAL_ERROR, Message: "Internal error"})
		}
	}()
	switch m := s.f.mcp.HandleMessage(context.WithValue(ctx, codeKey{}, code), raw).(type) {
	case mcp.JSONRPCResponse:
		return encode(id, m.Result, nil)
	case mcp.JSONRPCError:
		if c := code.Load(); c != 0 {
			m.Error.Code = int(c)
		}
		return encode(id, nil, &rpcError{Code: m.Error.Code, Message: m.Error.Message, Data: m.Error.Data})
	default:
		return encode(id, nil, &rpcError{Code: mcp.INTERNAL_ERROR, Message: "Internal error: no answer"})
	}
}

// codeKey finds where a handler can leave the code of its error: mcp-go has -32603 for all of them.
type codeKey struct{}

func withCode(ctx context.Context, code int, err error) error {
	if c, ok := ctx.Value(codeKey{}).(*atomic.Int64); ok {
		c.Store(int64(code))
	}
	return err
}
