package upstream

import (
	"fmt"
	"io"
	"sync"
)

// queue is an io.WriteCloser that never blocks. mcp-go v1.2.1: a write to a full stdin pipe holds the transport's lock
// and ignores contexts, so one call to a server that does not read would block all others.
type queue struct {
	dst io.WriteCloser
	max int // bytes

	mu      sync.Mutex // guards what follows
	pending [][]byte
	bytes   int
	closed  bool
	wake    chan struct{}
}

// newQueue takes dst over; its writer goroutine ends when Close or a failed write closes dst.
func newQueue(dst io.WriteCloser, limit int) *queue {
	q := &queue{dst: dst, max: limit, wake: make(chan struct{}, 1)}
	go q.run()
	return q
}

// Write copies p into the queue, or fails with a fault of kind ErrBusy. What comes after Close is dropped: the read side
// of the connection is where an ended server shows.
func (q *queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
	case q.bytes+len(p) > q.max:
		return 0, &fault{ErrBusy, fmt.Sprintf("it does not read its input: %d bytes wait for it already", q.bytes)}
	default:
		q.pending = append(q.pending, append([]byte(nil), p...))
		q.bytes += len(p)
		q.signal()
	}
	return len(p), nil
}

// Close drops what is queued and closes the pipe, which also ends a blocked write.
func (q *queue) Close() error {
	q.mu.Lock()
	q.closed = true
	q.pending, q.bytes = nil, 0
	q.signal()
	q.mu.Unlock()
	return q.dst.Close()
}

// signal is called with mu held.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queue) run() {
	for range q.wake {
		for {
			q.mu.Lock()
			if q.closed {
				q.mu.Unlock()
				return
			}
			if len(q.pending) == 0 {
				q.mu.Unlock()
				break
			}
			p := q.pending[0]
			q.pending = q.pending[1:]
			q.mu.Unlock()
			_, err := q.dst.Write(p)
			q.mu.Lock()
			q.bytes -= len(p)
			if err != nil {
				q.closed = true
				q.pending, q.bytes = nil, 0
			}
			q.mu.Unlock()
		}
	}
}
