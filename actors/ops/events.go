package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

const (
	// readersMost bounds the pages that are open at once.
	readersMost = 16
	// writeMax is how long one reader may take for one event before it is let go.
	writeMax = 5 * time.Second
	// checksKeep is how long doctor's checks hold for all who look.
	checksKeep = 10 * time.Second
	checksMax  = 30 * time.Second
)

// events sends the state each second. Each reader has this goroutine of its own, so a slow one holds up only itself.
func (o *Ops) events(w http.ResponseWriter, r *http.Request) {
	select {
	case o.readers <- struct{}{}:
		defer func() { <-o.readers }()
	default:
		http.Error(w, "too many pages are open; close some", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		data, err := json.Marshal(o.state())
		if err != nil || out.SetWriteDeadline(time.Now().Add(writeMax)) != nil {
			return
		}
		if _, err := w.Write(append(append([]byte("data: "), data...), "\n\n"...)); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// checks is doctor's, made once for all who ask at the same time.
type checks struct {
	mu   sync.Mutex
	last []Check
	at   time.Time
}

func (c *checks) list(ctx context.Context, look func(context.Context) []Check) []Check {
	if look == nil {
		return []Check{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < checksKeep {
		return c.last
	}
	ctx, end := context.WithTimeout(ctx, checksMax)
	defer end()
	if found := look(ctx); ctx.Err() == nil || c.last == nil {
		c.last, c.at = found, time.Now()
	}
	return c.last
}
