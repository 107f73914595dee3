package front

import (
	"bufio"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// roomBytes is how much may wait for a client that does not read before no more requests are taken in. Answers of
	// calls that already run still come on top: MaxInFlight bounds those.
	roomBytes = 16 << 20
	// notesBuffer is how many of mcp-go's notifications may wait; it drops what comes beyond.
	notesBuffer = 100
)

// outgoing is one line on its way to the client.
type outgoing struct {
	line []byte
	done func() // called after it was written, or given up; may be nil
}

// writer owns the output. One goroutine writes, so that the order in which lines were queued is the order on the wire.
type writer struct {
	notes chan mcp.JSONRPCNotification // mcp-go's own; written before any line that is queued after them

	mu     sync.Mutex
	queue  []outgoing
	bytes  int  // of queue and of what is being written
	closed bool // no more lines are taken
	room   chan struct{}

	wake   chan struct{}
	failed chan struct{} // closed at the first write error
	err    error         // that error; read after failed is closed
	ended  chan struct{} // closed when the goroutine has gone
}

func newWriter(out io.Writer) *writer {
	w := &writer{
		notes:  make(chan mcp.JSONRPCNotification, notesBuffer),
		room:   make(chan struct{}, 1),
		wake:   make(chan struct{}, 1),
		failed: make(chan struct{}),
		ended:  make(chan struct{}),
	}
	go w.run(out)
	return w
}

// send queues a line and never blocks. done is called in any case.
func (w *writer) send(line []byte, done func()) {
	w.mu.Lock()
	taken := !w.closed
	if taken {
		w.queue = append(w.queue, outgoing{line, done})
		w.bytes += len(line)
	}
	w.mu.Unlock()
	if !taken {
		if done != nil {
			done()
		}
		return
	}
	poke(w.wake)
}

// crowded tells whether the client is far behind with reading.
func (w *writer) crowded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes > roomBytes
}

// close lets the goroutine end once it has written what is queued.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	poke(w.wake)
}

func (w *writer) run(out io.Writer) {
	defer close(w.ended)
	b := bufio.NewWriterSize(out, readBuffer)
	var failed bool
	write := func(line []byte) {
		if failed {
			return
		}
		if _, err := b.Write(line); err != nil {
			failed, w.err = true, err
			close(w.failed)
		}
	}
	for {
		batch, closed := w.take()
		for _, o := range batch {
			w.drainNotes(write)
			write(o.line)
		}
		w.drainNotes(write)
		if !failed {
			if err := b.Flush(); err != nil {
				failed, w.err = true, err
				close(w.failed)
			}
		}
		w.settle(batch)
		if len(batch) > 0 {
			continue
		}
		if closed {
			return
		}
		select {
		case <-w.wake:
		case n := <-w.notes:
			write(encodeNote(n))
		}
	}
}

// take gives all that is queued.
func (w *writer) take() ([]outgoing, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.queue
	w.queue = nil
	return batch, w.closed
}

// settle tells the owners of written lines, and the reader that there is room.
func (w *writer) settle(batch []outgoing) {
	n := 0
	for _, o := range batch {
		n += len(o.line)
		if o.done != nil {
			o.done()
		}
	}
	w.mu.Lock()
	w.bytes -= n
	w.mu.Unlock()
	poke(w.room)
}

func (w *writer) drainNotes(write func([]byte)) {
	for {
		select {
		case n := <-w.notes:
			write(encodeNote(n))
		default:
			return
		}
	}
}

func encodeNote(n mcp.JSONRPCNotification) []byte {
	line, err := marshal(n)
	if err != nil {
		return nil // nothing of ours fails to encode, and a notification has no one to tell
	}
	return line
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
