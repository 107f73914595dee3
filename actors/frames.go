package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/thawpool/thawpool/runtime/guest"
)

// shieldedRead is read, but that a bug on the way, also in who takes the output, ends this run alone.
func (v *conversation) shieldedRead(ctx context.Context, stream io.Reader) (d verdict) {
	defer func() {
		if r := recover(); r != nil {
			err := bug(r)
			logBug(v.call.log, err)
			d = verdict{stop: stopOf(err)}
		}
	}()
	return v.read(ctx, stream)
}

// readBuffers spares each run the making of a buffer that holds a frame of output. Nothing is read from one that was not
// written to it in the same run.
var readBuffers = sync.Pool{New: func() any {
	b := make([]byte, guest.PayloadMax+16<<10)
	return &b
}}

// read takes frames in until the run has ended or breaks the rules.
func (v *conversation) read(ctx context.Context, stream io.Reader) verdict {
	pace := pacer{since: time.Now()}
	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)
	frames := guest.NewReader(stream, guest.WithBuffer(*buf),
		guest.WithAdmit(func(_ guest.Kind, size int) error { return pace.wait(ctx, size) }))
	for {
		f, err := frames.Next()
		switch {
		case errors.Is(err, guest.ErrProtocol):
			return verdict{violates: err}
		case err != nil:
			return verdict{lost: true}
		}
		last, err := v.take(f)
		if err != nil {
			return verdict{violates: fmt.Errorf("%w: %w", guest.ErrProtocol, err)}
		}
		if last {
			return verdict{}
		}
	}
}

// take takes one frame in. It tells whether it was the last one.
func (v *conversation) take(f *guest.Frame) (last bool, err error) {
	switch f.Kind {
	case guest.KindCall:
		return false, v.calls.ask(f.ID, f.Verb, f.Args)
	case guest.KindCancel:
		v.calls.cancel(f.ID)
		return false, nil
	case guest.KindReady:
		return false, errors.New("a second ready frame")
	case guest.KindOut, guest.KindDone, guest.KindExit:
	}
	v.mu.Lock()
	defer v.mu.Unlock() // also when Output panics
	if v.over {
		return true, nil
	}
	switch f.Kind {
	case guest.KindOut:
		if v.call.req.Output != nil {
			v.call.req.Output(f.FD, f.Data)
		}
		v.out[f.FD-1].write(f.Data)
	case guest.KindDone:
		return false, v.takeDone(f)
	case guest.KindExit:
		v.exit = &exit{code: f.Code, signal: f.Signal, reason: f.Reason}
		return true, nil
	}
	return false, nil
}

func (v *conversation) takeDone(f *guest.Frame) error {
	if v.ended {
		return errors.New("a second done frame")
	}
	v.ended = true
	if f.Value != nil {
		text := clipText(*f.Value, valueMax)
		v.value = &text
	}
	if f.Error != nil {
		v.failure = &RunError{
			Type: clipText(f.Error.Type, noteMax), Message: clipText(f.Error.Message, messageMax),
			Traceback: clipText(f.Error.Traceback, tracebackMax),
		}
	}
	for _, n := range f.Notes[:min(len(f.Notes), notesMax)] {
		v.notes = append(v.notes, clipText(n, noteMax))
	}
	return nil
}

// How fast frames are taken in, on average over paceBurst. A sandbox that sends faster is made to wait by the pipe
// between, so that an endless print costs the host a bounded share of a core. Honest runs stay below: a runner gathers
// what the code prints into frames of up to guest.PayloadMax.
const (
	paceFrames = 100_000   // a second
	paceBytes  = 256 << 20 // a second
	paceBurst  = 100 * time.Millisecond
)

// pacer bounds the rate of frames and bytes of one run.
type pacer struct {
	since  time.Time     // when what is owed began to be paid off
	owed   time.Duration // time that the frames since then may take
	frames int           // since the clock was last looked at
	bytes  int
}

// wait waits when frames come faster than they may.
func (p *pacer) wait(ctx context.Context, size int) error {
	p.owed += max(time.Second/paceFrames, time.Duration(size)*time.Second/paceBytes)
	p.frames++
	p.bytes += size
	if p.frames < 256 && p.bytes < 1<<20 { // the clock is looked at now and then only
		return nil
	}
	p.frames, p.bytes = 0, 0
	ahead := p.owed - time.Since(p.since)
	switch {
	case ahead < -paceBurst: // time that was not used cannot be saved up
		p.since, p.owed = time.Now().Add(-paceBurst), 0
	case ahead > 0:
		t := time.NewTimer(ahead)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return nil
}
