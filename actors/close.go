package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// endWait is how long Close waits for the answers of the calls that it has ended.
	endWait = time.Second
	// stopWait is how long the actors, with nothing left to do, may take to stop.
	stopWait = 500 * time.Millisecond
)

// Close ends the System: it lets no call in, gives running ones Config.Grace and then ends them, destroys every sandbox and
// stops. It is bounded by ctx; its error names the sandboxes that could not be destroyed in time. Closing again, also at
// the same time, waits for the first Close and returns the same.
func (s *System) Close(ctx context.Context) error {
	if s.closing.CompareAndSwap(false, true) { // a sync.Once would make the second Close wait beyond its own ctx
		defer close(s.closed)
		s.closeErr = s.close(ctx)
		return s.closeErr
	}
	select {
	case <-s.closed:
		return s.closeErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *System) close(ctx context.Context) error {
	s.stopping.Store(true)
	close(s.quit)
	s.ledger.close()
	s.endCalls(ctx)
	errs := make([]error, len(s.profiles))
	var all sync.WaitGroup
	i := 0
	for name := range s.profiles {
		at := i
		all.Go(func() { errs[at] = s.Drain(ctx, name) })
		i++
	}
	all.Wait()
	if isClosed(s.dead) { // nobody carries the draining out
		errs = []error{s.sweep(ctx)}
	}
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
	defer end()
	s.out.root.Stop(s.supervisor)
	if !within(ctx, s.dead) {
		errs = append(errs, errors.New("the actors did not stop in time"))
	}
	s.out.root.Stop(s.watcher)
	idle := make(chan struct{})
	go func() { // bounded by ctx below; it ends with the last task
		s.tasks.Wait()
		s.out.crew.dismiss()
		close(idle)
	}()
	if !within(ctx, idle) {
		errs = append(errs, errors.New("some work did not end in time"))
	}
	return errors.Join(errs...)
}

// endCalls lets running calls end, and then ends them.
func (s *System) endCalls(ctx context.Context) {
	grace, end := context.WithTimeout(ctx, s.cfg.Grace)
	defer end()
	if within(grace, s.ledger.empty) {
		return
	}
	for _, c := range s.ledger.calls() {
		s.out.root.Send(s.supervisor, cancelCall{call: c, cause: errShutdown})
	}
	last, end := context.WithTimeout(ctx, endWait)
	defer end()
	within(last, s.ledger.empty)
}

// sweep destroys what is left when no actor can: the supervisor has failed beyond repair.
func (s *System) sweep(ctx context.Context) error {
	var errs []error
	for _, p := range s.profiles {
		p.reg.drain()
		var all sync.WaitGroup
		for _, b := range p.reg.all() {
			if b.sandbox == nil {
				continue // its boot is ending: the registry's context has
			}
			all.Go(func() {
				if b.sandbox.Destroy(ctx) == nil {
					p.reg.gone(b.slot)
				}
			})
		}
		all.Wait()
		if !within(ctx, p.reg.empty) {
			errs = append(errs, p.leftOver())
		}
	}
	return errors.Join(errs...)
}

// leftOver names the sandboxes that are still there.
func (p *profile) leftOver() error {
	var ids []string
	for _, b := range p.reg.all() {
		ids = append(ids, b.id)
	}
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return fmt.Errorf("%d sandboxes are not destroyed: %s", len(ids), strings.Join(ids, ", "))
}

// within tells whether c was closed before ctx ended.
func within(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
	}
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}
