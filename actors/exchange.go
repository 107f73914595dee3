package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/thawpool/thawpool/runtime/guest"
)

// The bounds on the inner calls of one run. Those up to backlogMax wait their turn; what goes beyond a bound is answered
// with an error, which the code can handle, and only a run that does not read its answers is ended.
const (
	callsAtOnce   = 64        // being answered, or with an answer that is not written yet
	callsMax      = 10_000    // in one run
	backlogMax    = 4096      // calls that wait for their turn
	backlogBytes  = 32 << 20  // of arguments that wait
	answerBytes   = 128 << 20 // of answers that wait to be written
	unreadMax     = 16_384    // answers that wait to be written
	receiptCalls  = 200       // shown in the receipt
	callNameBytes = 128       // of a server's or tool's name in a receipt
)

// exchange is the inner calls of one run: what the code asks of the host and what it is answered.
type exchange struct {
	ctx     context.Context // ends with the run
	call    *call
	helpers *sync.WaitGroup
	out     outside
	wake    chan struct{} // tells the writer that there is something to write
	sent    chan struct{} // closed when the run frame is written, or cannot be

	mu      sync.Mutex        // guards what follows
	open    map[uint64]*inner // calls that run or wait
	busy    int               // calls that take a place: running, or answered and not written
	backlog []*inner
	waiting int // bytes of arguments in backlog
	answers []answer
	unsent  int // bytes of values in answers
	count   int
	shown   []InnerCall
	keptOut int64
}

// inner is one call.
type inner struct {
	id    uint64
	verb  string
	args  json.RawMessage
	since time.Time
	end   context.CancelFunc // set while it runs
	gone  bool               // the code no longer waits for it
	told  func(InnerCall)    // of the call's Follower; nil when it has none
}

// answer is a reply that is to be written.
type answer struct {
	id    uint64
	value json.RawMessage
	fault *guest.CallError
	place bool // it holds a place until it is written
}

func (x *exchange) begin(ctx context.Context, c *call, out outside, helpers *sync.WaitGroup) {
	x.ctx, x.call, x.out, x.helpers = ctx, c, out, helpers
	x.wake, x.sent, x.open = make(chan struct{}, 1), make(chan struct{}), map[uint64]*inner{}
}

// ask takes a call in. Its error ends the run.
func (x *exchange) ask(id uint64, verb string, args json.RawMessage) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.count++
	in := &inner{id: id, verb: verb, args: args, since: time.Now()}
	switch {
	case len(x.answers) >= unreadMax:
		return fmt.Errorf("it has left %d answers to its calls unread", len(x.answers))
	case x.open[id] != nil:
		return fmt.Errorf("call %d is not answered yet and was made again", id)
	case x.call.bridge == nil:
		x.refuse(in, "no upstream servers are configured here, so there is nothing to call")
	case x.count > callsMax:
		x.refuse(in, fmt.Sprintf("this run has made %d calls, the most there may be in one", callsMax))
	case x.busy < callsAtOnce:
		x.start(in)
	case len(x.backlog) < backlogMax && x.waiting+len(args) <= backlogBytes:
		x.open[id] = in
		x.backlog = append(x.backlog, in)
		x.waiting += len(args)
	default:
		x.refuse(in, fmt.Sprintf("too many calls at once: %d are running and %d wait; await some first", x.busy, len(x.backlog)))
	}
	return nil
}

// refuse answers a call with an error without making it.
func (x *exchange) refuse(in *inner, why string) {
	x.show(in.shown("denied"))
	x.push(answer{id: in.id, fault: &guest.CallError{Message: why}})
}

// start makes a call, on its own goroutine.
func (x *exchange) start(in *inner) {
	var ctx context.Context
	ctx, in.end = context.WithCancel(x.ctx)
	if f := x.call.req.Follow; f != nil {
		ctx, in.told = f.Inner(ctx, in.verb, in.args)
	}
	x.open[in.id] = in
	x.busy++
	x.out.run(x.helpers, func() {
		defer in.end()
		value, call, err := x.make(ctx, in)
		x.end(in, value, call, err)
	})
}

// make calls the bridge. A bug in it is an error of this one call.
func (x *exchange) make(ctx context.Context, in *inner) (value json.RawMessage, call InnerCall, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = bug(r)
			logBug(x.call.log, err)
		}
	}()
	return x.call.bridge.Call(ctx, in.verb, in.args)
}

// end takes a call's result.
func (x *exchange) end(in *inner, value json.RawMessage, call InnerCall, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, in.id)
	call = complete(in, call, len(value), err)
	x.show(call)
	if in.told != nil {
		in.told(call)
	}
	if err == nil && in.verb == guest.VerbCall {
		x.keptOut += int64(len(value))
	}
	if in.gone {
		x.leave()
		return
	}
	a := answer{id: in.id, value: value, place: true}
	if err != nil {
		a.value, a.fault = nil, faultOf(err)
	}
	if x.unsent+len(a.value) > answerBytes {
		a.value, a.fault = nil, &guest.CallError{Message: fmt.Sprintf(
			"answers of %d MiB wait to be read by the code; await calls with large results one after the other", x.unsent>>20)}
	}
	x.push(a)
}

// leave frees a place and gives it to the call that has waited longest.
func (x *exchange) leave() {
	x.busy--
	for len(x.backlog) > 0 && x.busy < callsAtOnce && x.ctx.Err() == nil {
		in := x.backlog[0]
		x.backlog[0] = nil
		x.backlog = x.backlog[1:]
		x.waiting -= len(in.args)
		if !in.gone {
			x.start(in)
		}
	}
}

// cancel ends a call that the code no longer waits for. One that is answered already is no error: the two have crossed. One
// that waits keeps its place in the backlog until its turn.
func (x *exchange) cancel(id uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	in := x.open[id]
	if in == nil || in.gone {
		return
	}
	in.gone = true
	if in.end != nil {
		in.end()
		return
	}
	x.show(in.shown("cancelled"))
	delete(x.open, id)
}

func (x *exchange) push(a answer) {
	x.answers = append(x.answers, a)
	x.unsent += len(a.value)
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

func (x *exchange) pop() (a answer, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.answers) == 0 {
		return a, false
	}
	a = x.answers[0]
	x.answers[0] = answer{}
	x.answers = x.answers[1:]
	return a, true
}

// written notes that an answer needs no memory any more.
func (x *exchange) written(a answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unsent -= len(a.value)
	if a.place {
		x.leave()
	}
}

// write sends what is left of the run frame and then the answers, until the run ends. An error means that nobody reads any
// more; that the sandbox has gone is the reader's to tell.
func (x *exchange) write(ctx context.Context, stream io.Writer, run []byte) {
	var err error
	if len(run) > 0 {
		_, err = stream.Write(run)
	}
	close(x.sent)
	if err != nil {
		return
	}
	w := guest.NewWriter(stream)
	for {
		for a, ok := x.pop(); ok; a, ok = x.pop() {
			if w.Reply(a.id, a.value, a.fault) != nil {
				return
			}
			x.written(a)
		}
		select {
		case <-x.wake:
		case <-ctx.Done():
			return
		}
	}
}

func (x *exchange) show(c InnerCall) {
	if len(x.shown) < receiptCalls {
		x.shown = append(x.shown, c)
	}
}

// report puts the calls into the receipt, with those that the end of the run cuts off.
func (x *exchange) report(r *Receipt) {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := x.left()
	r.Calls = slices.Clone(x.shown)
	for _, in := range left[:min(len(left), receiptCalls-len(r.Calls))] {
		r.Calls = append(r.Calls, in.shown("cancelled"))
	}
	r.CallCount, r.KeptOut = x.count, x.keptOut
	r.Plan = planOf(r.Calls)
}

// left is the calls without an answer, the oldest first.
func (x *exchange) left() []*inner {
	return slices.SortedFunc(maps.Values(x.open), func(a, b *inner) int { return a.since.Compare(b.since) })
}

// awaited names the call that the code has waited for longest; it is "" when for none.
func (x *exchange) awaited() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	left := slices.DeleteFunc(x.left(), func(in *inner) bool { return in.gone })
	if len(left) == 0 {
		return ""
	}
	c := left[0].shown("")
	text := fmt.Sprintf("%s for %.1f s", c.Tool, c.MS/1000)
	if c.Server != "" {
		text = fmt.Sprintf("server %q, tool %q, for %.1f s", c.Server, c.Tool, c.MS/1000)
	}
	if len(left) > 1 {
		text += fmt.Sprintf(", and for %d more", len(left)-1)
	}
	return text
}

// shown is what the receipt says of a call that no bridge has told about.
func (in *inner) shown(outcome string) InnerCall {
	c := InnerCall{Tool: clipText(in.verb, callNameBytes), MS: ms(time.Since(in.since)), BytesIn: len(in.args), Outcome: outcome}
	var named struct{ Server, Tool string }
	if in.verb == guest.VerbCall && len(in.args) < 1<<20 && json.Unmarshal(in.args, &named) == nil && named.Tool != "" {
		c.Server, c.Tool = clipText(named.Server, callNameBytes), clipText(named.Tool, callNameBytes)
	}
	return c
}

// complete fills what the bridge left open.
func complete(in *inner, c InnerCall, out int, err error) InnerCall {
	base := in.shown("ok")
	switch {
	case in.gone || errors.Is(err, context.Canceled):
		base.Outcome = "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		base.Outcome = "timeout"
	case err != nil:
		base.Outcome = "error"
	}
	if c.Tool == "" {
		c.Server, c.Tool = base.Server, base.Tool
	}
	if c.Outcome == "" {
		c.Outcome = base.Outcome
	}
	if c.MS == 0 {
		c.MS = base.MS
	}
	if c.BytesIn == 0 {
		c.BytesIn = base.BytesIn
	}
	if c.BytesOut == 0 && err == nil {
		c.BytesOut = out
	}
	return c
}

// faultOf is an error as the code sees it.
func faultOf(err error) *guest.CallError {
	var fault *guest.CallError
	if errors.As(err, &fault) {
		return fault
	}
	return &guest.CallError{Message: err.Error()}
}
