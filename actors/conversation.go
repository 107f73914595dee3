package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/guest"
)

const (
	// thawMax ends a thaw that hangs; the call then gets another sandbox. The runtime may be sooner.
	thawMax = 12 * time.Second
	// killWait is how long the answer of a run that had to be killed waits for the kill to be seen, so that whoever looks
	// after the answer finds nothing running any more.
	killWait = 500 * time.Millisecond
	// startMax is how long a thawed sandbox may take to read its run. It takes microseconds, so one that has not done so is
	// dead or stuck.
	startMax = 4 * time.Second
	// sentMax is how long the sandbox of a call that has ended is kept for the answer to leave: longer than rendering takes,
	// and short enough that a client which does not read holds nothing.
	sentMax = 50 * time.Millisecond
	// drainWait is how long frames are still read once the sandbox's first process has gone: what it wrote is in the pipe.
	drainWait = time.Second
)

// terms are what every conversation of a System keeps to.
type terms struct {
	outputMax  int // bytes kept of each stream
	maxTimeout time.Duration
}

// conversation is one run in one sandbox: thaw, run frame, frames, result. It is done by one goroutine (run) with three
// kinds of helper that it waits for: the reader of frames, the writer of frames, and one for each inner call.
type conversation struct {
	terms
	outside
	call    *call
	profile *profile
	leased
	calls exchange

	ask    time.Time // when the sandbox was leased
	thawed time.Time
	thaw   time.Duration

	mu      sync.Mutex // guards what follows, between the reader and run
	over    bool       // the result is being made; what comes now comes too late
	out     [2]clip    // fd 1 and 2
	ended   bool       // the done frame has come
	value   *string
	failure *RunError
	notes   []string
	exit    *exit
}

// exit is what the exit frame says.
type exit struct {
	code, signal int
	reason       string
}

func newConversation(t terms, out outside, c *call, p *profile, l leased) *conversation {
	v := &conversation{terms: t, outside: out, call: c, profile: p, leased: l, ask: time.Now()}
	v.out[0].max, v.out[1].max = t.outputMax, t.outputMax
	return v
}

// run has the conversation and answers the call. Its result is for the session: boxDead when the sandbox was dead before
// it had seen anything of the run, else settled. ctx ends when the call is to end; its cause says how that is answered.
func (v *conversation) run(ctx context.Context) any {
	stream := v.sandbox.Stream()
	run, dead, err := v.start(ctx, stream)
	if err != nil && dead {
		return boxDead{slot: v.slot, cause: err}
	}
	if err != nil {
		v.call.finish(v.result(verdict{stop: stopOf(err)}, runtime.Usage{}))
		v.profile.letGo(v.outside, release{slot: v.slot, running: true})
		return settled{}
	}
	d := v.converse(ctx, stream, run)
	if d.unseen {
		return boxDead{slot: v.slot, cause: errUnseen}
	}
	return settled{}
}

// errUnseen is why a sandbox that was thawed is no use: another one may do.
var errUnseen = errors.New("it was thawed and has not read its run")

// converse sends what is left of the run and answers the call, unless the sandbox has not seen the run: then nothing of it has happened.
func (v *conversation) converse(ctx context.Context, stream io.ReadWriter, run []byte) verdict {
	inner, quit := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait() // they end once the sandbox is destroyed
	defer quit()
	v.calls.begin(inner, v.call, v.outside, &helpers)
	end := make(chan verdict, 1)
	v.outside.run(&helpers, func() { v.calls.write(inner, stream, run) })
	v.outside.run(&helpers, func() { end <- v.shieldedRead(inner, stream) })
	d := v.await(ctx, end)
	if d.unseen {
		v.abandon()
		return d
	}
	v.answer(d)
	return d
}

// abandon begins to remove the sandbox, which ends what still reads from it. The pool waits for the end.
func (v *conversation) abandon() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = v.sandbox.Destroy(ctx) // goes on without us
}

// start thaws the sandbox, with the run frame already there if it is a short one, so that the runner wakes only once. left
// is the frame that is still to be sent. dead tells that another sandbox may do: nobody has answered what code may
// have run in this one.
func (v *conversation) start(ctx context.Context, stream io.Writer) (left []byte, dead bool, err error) {
	frame, err := guest.EncodeRun(v.runFrame())
	if err != nil {
		return nil, false, err
	}
	if len(frame) <= runtime.EarlyMax {
		if _, err := stream.Write(frame); err != nil {
			return nil, true, fmt.Errorf("write to a frozen sandbox: %w", err)
		}
		frame = nil
	}
	tctx, done := context.WithTimeout(ctx, thawMax)
	defer done()
	err = v.sandbox.Thaw(tctx)
	v.thawed = time.Now()
	v.thaw = v.thawed.Sub(v.ask)
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case err != nil:
		return nil, true, fmt.Errorf("thaw: %w", err)
	}
	if f := v.call.req.Follow; f != nil {
		f.Thawed(v.sandbox.ID())
	}
	v.call.log.Debug().Str(keyEvent, "thaw").Str(keySandbox, v.sandbox.ID()).Float64(keyTookMS, ms(v.thaw)).Send()
	return frame, false, nil
}

func (v *conversation) runFrame() guest.Run {
	r := guest.Run{ID: v.call.req.ID, Code: v.call.req.Code, ValueMax: valueMax}
	if v.call.bridge != nil {
		r.Servers, r.Saved = v.call.bridge.Scope()
	}
	return r
}

// await waits for the first thing that ends the run, and looks whether it has begun at all.
func (v *conversation) await(ctx context.Context, end <-chan verdict) verdict {
	d := v.awaitEnd(ctx, end)
	if d.lost && v.unseen() {
		return verdict{unseen: true}
	}
	return d
}

// unseen tells whether the sandbox, which has gone, saw nothing of the run.
func (v *conversation) unseen() bool {
	t := time.NewTimer(killWait)
	defer t.Stop()
	select {
	case <-v.calls.sent:
		return v.sandbox.Withdraw()
	case <-t.C: // somebody still reads
		return false
	}
}

func (v *conversation) awaitEnd(ctx context.Context, end <-chan verdict) verdict {
	limit := time.NewTimer(v.call.timeout - time.Since(v.thawed))
	defer limit.Stop()
	begun := time.NewTimer(startMax)
	defer begun.Stop()
	for {
		select {
		case d := <-end:
			if d.lost {
				v.gone()
			}
			return d
		case <-begun.C:
			if isClosed(v.calls.sent) && v.sandbox.Withdraw() {
				return verdict{unseen: true}
			}
		case <-limit.C:
			return verdict{stop: timeoutStop(v.call.timeout, v.maxTimeout)}
		case <-ctx.Done():
			return verdict{stop: stopOf(context.Cause(ctx))}
		case <-v.sandbox.Done():
			return lastWords(ctx, end)
		}
	}
}

// lastWords takes in what the sandbox wrote before its first process went.
func lastWords(ctx context.Context, end <-chan verdict) verdict {
	late := time.NewTimer(drainWait)
	defer late.Stop()
	select {
	case d := <-end:
		return d
	case <-late.C:
		return verdict{lost: true}
	case <-ctx.Done():
		return verdict{stop: stopOf(context.Cause(ctx))}
	}
}

// gone waits a moment for the sandbox's first process to go: until it has, the kernel's counts of what ended it are not
// complete, and a kill is not done.
func (v *conversation) gone() {
	wait := time.NewTimer(killWait)
	defer wait.Stop()
	select {
	case <-v.sandbox.Done():
	case <-wait.C:
	}
}

// answer makes the result, gives it to the call and has the sandbox destroyed: in this order when the code has ended, so
// that nothing lies between its end and the answer. Where code still runs it is killed first, and the answer waits a
// moment to be sure.
func (v *conversation) answer(d verdict) {
	v.mu.Lock()
	v.over = true
	v.mu.Unlock()
	after, err := v.sandbox.Usage()
	if err != nil {
		after = v.before // then the receipt says that nothing was counted
	}
	running := d.stop != nil || d.violates != nil
	if running {
		v.profile.letGo(v.outside, release{slot: v.slot, running: true})
		if d.stop == nil || d.stop.status != StatusCancelled { // nobody reads that one; its slot is wanted
			v.gone()
		}
	}
	v.call.finish(v.result(d, after))
	if !running {
		v.awaitSent()
		v.profile.letGo(v.outside, release{slot: v.slot})
	}
}

// awaitSent waits until the answer has left, or for sentMax.
func (v *conversation) awaitSent() {
	if v.call.req.Sent == nil {
		return
	}
	late := time.NewTimer(sentMax)
	defer late.Stop()
	select {
	case <-v.call.req.Sent:
	case <-late.C:
	}
}

// result is the answer. v.over is set, so nothing else touches what the reader has gathered.
func (v *conversation) result(d verdict, after runtime.Usage) Result {
	oom := after.OOMKills - v.before.OOMKills
	r := Result{
		Stdout: v.out[0].text(), Stderr: v.out[1].text(),
		StdoutBytes: v.out[0].total, StderrBytes: v.out[1].total,
		Truncated: v.out[0].cut() || v.out[1].cut(),
		Value:     v.value, Notes: v.notes,
	}
	r.Status, r.Error, r.ExitCode = v.conclude(d, oom)
	if r.Status == StatusTimeout {
		if awaited := v.calls.awaited(); awaited != "" {
			r.Error.Message += "; it was waiting for " + awaited
		}
	}
	if oom > 0 && r.Status != StatusOOM {
		r.Notes = append(r.Notes, fmt.Sprintf("the kernel killed %d process(es) of this run: %s exceeded", oom, memory(v.profile.Limits)))
	}
	r.Receipt = Receipt{
		Pool: string(v.how), Sandbox: v.sandbox.ID(),
		QueueMS: ms(v.ask.Sub(v.call.req.Queued)), ThawMS: ms(v.thaw), RunMS: ms(time.Since(v.thawed)),
		CPUMS: ms(max(after.CPU-v.before.CPU, 0)), PeakBytes: after.MemoryPeak,
	}
	v.calls.report(&r.Receipt)
	return r
}
