package ctrd

import "sync"

// workers are goroutines that close waits for. A sandbox may be destroyed after its session was closed, when the daemon
// was lost; then its own callers wait for the work.
type workers struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

func (w *workers) Go(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		go f()
		return
	}
	w.group.Go(f)
}

// Wait waits for all that was begun before it.
func (w *workers) Wait() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.group.Wait()
}
