package audit

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/catalog/text"
	"github.com/thawpool/thawpool/pool"
)

// trail follows the inner calls of one run.
type trail struct {
	mu    sync.Mutex
	inner []Inner
	count int
	read  bool // the line was made
}

var _ actors.Follower = (*trail)(nil)

// Leased implements actors.Follower.
func (*trail) Leased(string, pool.How) {}

// Thawed implements actors.Follower.
func (*trail) Thawed(string) {}

// Inner implements actors.Follower.
func (t *trail) Inner(ctx context.Context, verb string, args json.RawMessage) (context.Context, func(actors.InnerCall)) {
	sum := hash(args)
	t.mu.Lock()
	defer t.mu.Unlock()
	at := len(t.inner)
	t.count++
	if at >= innerMost || t.read {
		return ctx, nil
	}
	t.inner = append(t.inner, Inner{Tool: text.Head(verb, nameBytes), ArgsSHA256: sum, BytesIn: len(args), Outcome: "cancelled"}) // should it not end
	return ctx, func(c actors.InnerCall) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.inner[at] = Inner{Server: text.Head(c.Server, nameBytes), Tool: text.Head(c.Tool, nameBytes), ArgsSHA256: sum, MS: c.MS, BytesIn: c.BytesIn, BytesOut: c.BytesOut, Outcome: c.Outcome}
	}
}

func (t *trail) list() ([]Inner, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = true
	return slices.Clone(t.inner), t.count
}
