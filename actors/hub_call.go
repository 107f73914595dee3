package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/actors/catalog/schema"
	"github.com/thawpool/thawpool/actors/catalog/text"
	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/runtime/guest"
)

const (
	// maxToolError bounds the text of a tool's error, in bytes: it may hold a compiler's output.
	maxToolError = 16 << 10
	// maxPlannedArgs bounds the arguments that a plan shows of one call, in bytes.
	maxPlannedArgs = 2 << 10
)

// callTool makes one call of an upstream tool.
func (r *hubRun) callTool(ctx context.Context, args json.RawMessage) (value json.RawMessage, call InnerCall, err error) {
	call.Tool = guest.VerbCall
	defer func() {
		if call.Outcome == "" {
			call.Outcome = outcomeOf(err)
		}
		call.BytesOut = len(value)
	}()
	var a struct {
		Server string          `json:"server"`
		Tool   string          `json:"tool"`
		Args   json.RawMessage `json:"args"`
	}
	if err := decode(args, &a); err != nil {
		return nil, call, err
	}
	call.Server, call.Tool = clipText(a.Server, callNameBytes), clipText(a.Tool, callNameBytes)
	if len(a.Args) == 0 || string(a.Args) == "null" {
		a.Args = json.RawMessage("{}")
	}
	def, err := r.hub.resolve(r.snapshot(), a.Server)
	if err != nil {
		return nil, call, err
	}
	call.Server = clipText(def.Name, callNameBytes)
	if err := r.slots.Acquire(ctx, 1); err != nil {
		return nil, call, err
	}
	defer r.slots.Release(1)
	l, err := r.hub.borrow(ctx, def, false)
	if err != nil {
		return nil, call, callError(err)
	}
	defer l.release()
	snap := r.renew(def)
	tool, err := snap.ResolveTool(def.Name, a.Tool, r.hub.show)
	if err != nil {
		return nil, call, r.toolError(def, err)
	}
	call.Tool = clipText(tool.Name, callNameBytes)
	planned, err := r.permit(snap, def, tool, a.Args)
	if err != nil {
		return nil, call, err
	}
	if planned {
		call.Outcome, call.Planned = "planned", describePlanned(def, tool, a.Args)
		return plannedResult(def, tool), call, nil
	}
	value, err = r.send(ctx, l, def, tool, a.Args)
	return value, call, err
}

// toolError explains a tool that is not there. ErrUnlisted can only mean that the definition was changed after the run
// had begun.
func (r *hubRun) toolError(def config.Server, err error) error {
	if errors.Is(err, catalog.ErrUnlisted) {
		return &guest.CallError{Type: guest.ErrUnknownServer, Message: fmt.Sprintf(
			"the definition of server %q was changed while this code ran; run it again", def.Name)}
	}
	return err
}

// permit checks policy, arguments and budget, in this order: the answer to a forbidden call tells nothing of the tool.
func (r *hubRun) permit(snap *catalog.Snapshot, def config.Server, tool catalog.Tool, args json.RawMessage) (planned bool, err error) {
	decision, err := r.hub.cfg.Policy.Call(def.Name, policyTool(tool))
	if decision == policy.Deny {
		return false, &guest.CallError{Type: guest.ErrDenied, Message: err.Error()}
	}
	if err := snap.CheckArguments(def.Name, tool.Name, args); err != nil {
		return false, err
	}
	if err := r.budget.Call(len(args)); err != nil {
		return false, budgetError(err)
	}
	return decision == policy.Plan, nil
}

// send calls the server and makes of its result what the code gets.
func (r *hubRun) send(ctx context.Context, l *connLease, def config.Server, tool catalog.Tool, args json.RawMessage) (json.RawMessage, error) {
	since := time.Now()
	result, err := r.exchange(ctx, l, def, tool, args)
	if err == nil {
		err = toolFailure(result)
		if err == nil {
			r.hub.catalog.RememberShape(def, tool.Name, result)
			result, err = markWrapped(tool, result)
		}
	}
	if err == nil {
		err = r.budget.Result(len(result))
		if err != nil {
			err = budgetError(err)
		}
	}
	l.srv.called(time.Since(since), err != nil)
	if err != nil {
		return nil, err
	}
	return result, nil
}

// exchange makes the call within the server's own limit. ctx ends with the run, whose answer then says what it was waiting
// for.
func (r *hubRun) exchange(ctx context.Context, l *connLease, def config.Server, tool catalog.Tool, args json.RawMessage) (json.RawMessage, error) {
	limit := r.hub.callTimeout(def)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := l.conn.CallTool(limited, tool.Name, args)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return nil, &guest.CallError{Type: guest.ErrTimeout, Message: fmt.Sprintf(
			"server %q did not answer %s within its call timeout of %s (callTimeout in its definition, or --upstream-timeout, gives it longer)",
			def.Name, tool.Name, limit)}
	}
	return nil, callError(err)
}

// toolFailure is the error that a result reports, nil when it reports none. Only what says what went wrong is read: the
// rest of a failed result may break every schema.
func toolFailure(result json.RawMessage) error {
	var r struct {
		IsError    bool              `json:"isError"`
		Content    []json.RawMessage `json:"content"`
		Structured json.RawMessage   `json:"structuredContent"`
	}
	if trimmed := bytes.TrimSpace(result); len(trimmed) == 0 || trimmed[0] != '{' {
		return &guest.CallError{Message: "the server's answer is no MCP result"}
	}
	if !bytes.Contains(result, []byte(`"isError"`)) {
		return nil
	}
	if err := json.Unmarshal(result, &r); err != nil && !r.IsError {
		return nil // an odd result is for the code to look at
	}
	if !r.IsError {
		return nil
	}
	var words []string
	for _, raw := range r.Content {
		var block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &block) == nil && block.Text != "" {
			words = append(words, block.Text)
		}
	}
	message := text.Clean(strings.Join(words, "\n"), maxToolError)
	if message == "" && len(r.Structured) > 0 && string(r.Structured) != "null" {
		message = text.Clean(string(r.Structured), maxToolError)
	}
	if message == "" {
		message = "the tool reported an error and no reason"
	}
	return &guest.CallError{Message: message}
}

// markWrapped sets guest.WrappedMark in a result whose tool declares such a wrapping. All else in the result stays as it came.
func markWrapped(tool catalog.Tool, result json.RawMessage) (json.RawMessage, error) {
	if _, wrapped := schema.Wrapped(tool.Name, tool.OutputSchema); !wrapped {
		return result, nil
	}
	var fields, meta map[string]json.RawMessage
	if json.Unmarshal(result, &fields) != nil || fields["structuredContent"] == nil {
		return result, nil
	}
	if raw := fields["_meta"]; raw == nil || json.Unmarshal(raw, &meta) != nil || meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[guest.WrappedMark] = json.RawMessage("true")
	raw, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	fields["_meta"] = raw
	return json.Marshal(fields)
}

// describePlanned is what the plan says of a call.
func describePlanned(def config.Server, tool catalog.Tool, args json.RawMessage) *PlannedCall {
	shown := string(args)
	if len(shown) > maxPlannedArgs {
		shown = clipText(shown, maxPlannedArgs)
	}
	return &PlannedCall{Server: def.Name, Tool: tool.Name, Arguments: shown}
}

// plannedResult is the result of a call that was planned and not made.
func plannedResult(def config.Server, tool catalog.Tool) json.RawMessage {
	words := fmt.Sprintf("planned, not done: %s of server %s was not called, because thawpool runs with --dry-run-mutations and the "+
		"tool is not marked read-only", tool.Name, def.Name)
	raw, err := json.Marshal(map[string]any{
		"content": []any{map[string]any{"type": "text", "text": words}},
		"structuredContent": map[string]any{
			"planned": true, "server": def.Name, "tool": tool.Name, "note": words,
		},
	})
	if err != nil {
		return json.RawMessage(`{"content":[],"structuredContent":{"planned":true}}`) // strings always encode
	}
	return raw
}
