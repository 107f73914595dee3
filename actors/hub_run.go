package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/runtime/guest"
)

// hubRun is the Bridge of one run. It keeps the catalog as it was when the run began.
type hubRun struct {
	hub    *Hub
	budget *policy.Budget
	slots  *semaphore.Weighted // calls of upstream tools in flight

	mu    sync.Mutex // guards what follows
	snap  *catalog.Snapshot
	fresh map[string]bool // servers whose tools in snap are those that this process has read
}

var _ BridgeRun = (*hubRun)(nil)

// Open implements Bridge.
func (h *Hub) Open(_ context.Context, req Request) (BridgeRun, error) {
	snap := h.Snapshot()
	if req.Servers != nil {
		wanted := map[string]bool{}
		var errs []error
		for _, name := range req.Servers {
			def, err := h.resolve(snap, name)
			if err != nil {
				errs = append(errs, err)
			}
			wanted[def.Name] = true
		}
		if len(errs) > 0 {
			return nil, oneCallError(errs)
		}
		snap = snap.Only(func(d config.Server) bool { return wanted[d.Name] })
	}
	limits := h.cfg.Policy.Limits()
	return &hubRun{
		hub: h, budget: policy.NewBudget(limits), slots: semaphore.NewWeighted(int64(limits.Parallel)),
		snap: snap, fresh: h.areFresh(snap.Definitions()),
	}, nil
}

// resolve finds a server in snap. One that policy hides is told as such to whoever names it exactly.
func (h *Hub) resolve(snap *catalog.Snapshot, name string) (config.Server, error) {
	def, err := snap.Resolve(name)
	if err == nil {
		return def, nil
	}
	if hidden, hiddenErr := h.catalog.Snapshot().Resolve(name); hiddenErr == nil && !h.cfg.Policy.Server(hidden.Name) {
		err = &guest.CallError{Type: guest.ErrDenied, Message: fmt.Sprintf("server %q is not allowed by policy", hidden.Name)}
	}
	return config.Server{}, err
}

// oneCallError joins the errors of several names into one that keeps the type of the first.
func oneCallError(errs []error) error {
	var first *guest.CallError
	if !errors.As(errs[0], &first) || len(errs) == 1 {
		return errs[0]
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return &guest.CallError{Type: first.Type, Message: strings.Join(texts, "\n")}
}

// Scope implements BridgeRun.
func (r *hubRun) Scope() (servers []guest.Server, saved []string) {
	snap := r.snapshot()
	for _, d := range snap.Definitions() {
		if d.Off == "" {
			servers = append(servers, snap.Guest(d.Name))
		}
	}
	saved, err := r.hub.cfg.Store.ToolNames()
	if err != nil {
		r.hub.log.Warn().Str(keyEvent, "saved tools are not listed").Err(err).Send()
	}
	return servers, saved
}

func (r *hubRun) snapshot() *catalog.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snap
}

// renew takes the tools of a server as its connection has told them, once: what is then known stays for the run. It
// returns the catalog to go on with.
func (r *hubRun) renew(def config.Server) *catalog.Snapshot {
	latest := r.hub.catalog.Snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.fresh[def.Name] {
		r.snap = r.snap.Renewed(latest, def.Name)
		r.fresh[def.Name] = true
	}
	return r.snap
}

// Call implements BridgeRun.
func (r *hubRun) Call(ctx context.Context, verb string, args json.RawMessage) (json.RawMessage, InnerCall, error) {
	since := time.Now()
	if verb == guest.VerbCall {
		value, call, err := r.callTool(ctx, args)
		call.MS, call.BytesIn = ms(time.Since(since)), len(args)
		return value, call, err
	}
	call := InnerCall{Tool: clipText(verb, callNameBytes), BytesIn: len(args)}
	value, err := r.ask(ctx, verb, args)
	call.MS, call.BytesOut = ms(time.Since(since)), len(value)
	call.Outcome = outcomeOf(err)
	return value, call, err
}

func (r *hubRun) ask(ctx context.Context, verb string, args json.RawMessage) (json.RawMessage, error) {
	answer, ok := verbs[verb]
	if !ok {
		return nil, &guest.CallError{Type: guest.ErrValue, Message: fmt.Sprintf("the host has no verb %q", clipText(verb, callNameBytes))}
	}
	if err := r.budget.Verb(len(args)); err != nil {
		return nil, budgetError(err)
	}
	v, err := answer(ctx, r, args)
	if err != nil {
		return nil, callError(err)
	}
	value, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode answer to %s: %w", verb, err)
	}
	if err := r.budget.Result(len(value)); err != nil {
		return nil, budgetError(err)
	}
	return value, nil
}

func budgetError(err error) error {
	return &guest.CallError{Type: guest.ErrDenied, Message: err.Error()}
}

// outcomeOf is what the receipt says of a call that ended with err.
func outcomeOf(err error) string {
	var fault *guest.CallError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.As(err, &fault) && fault.Type == guest.ErrTimeout:
		return "timeout"
	case errors.As(err, &fault) && fault.Type == guest.ErrDenied:
		return "denied"
	}
	return "error"
}

// planOf is what calls have only planned.
func planOf(calls []InnerCall) []PlannedCall {
	var plan []PlannedCall
	for _, c := range calls {
		if c.Planned != nil {
			plan = append(plan, *c.Planned)
		}
	}
	return slices.Clip(plan)
}
