package ops

import (
	"errors"
	"sync"
	"time"
)

// conditionMax is how long looking at one condition may take.
const conditionMax = 2 * time.Second

var errSlow = errors.New("looking whether disk and logs can be used has not ended: the disk may hang")

// condition looks at a Condition, which may hang, without hanging itself. Only one look goes on at a time.
type condition struct {
	look Condition

	mu   sync.Mutex
	done chan struct{} // of the look that goes on; nil when none does
	last error
}

// now is what holds now, or errSlow.
func (c *condition) now() error {
	c.mu.Lock()
	done := c.done
	if done == nil {
		done = make(chan struct{})
		c.done = done
		go func() {
			err := c.look()
			c.mu.Lock()
			c.last, c.done = err, nil
			c.mu.Unlock()
			close(done)
		}()
	}
	c.mu.Unlock()
	limit := time.NewTimer(conditionMax)
	defer limit.Stop()
	select {
	case <-done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.last
	case <-limit.C:
		return errSlow
	}
}
