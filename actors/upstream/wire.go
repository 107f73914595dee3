package upstream

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// Names of the protocol that stand in code here.
const (
	methodListChanged = "notifications/tools/list_changed"
	methodCancelled   = "notifications/cancelled"
)

// exchange is what one request of ours carries past mcp-go's client, which decodes results into its own types: the
// parameters to overwrite, and the answer exactly as it came. Integers stay exact and odd content survives in both.
type exchange struct {
	set    map[string]json.RawMessage // members of params to set
	result json.RawMessage
	err    *mcp.JSONRPCErrorDetails
	failed atomic.Pointer[fault] // what broke the stream that the answer was to come on
}

type exchangeKey struct{}

// emptyResult is a tool's result with nothing in it.
var emptyResult = json.RawMessage(`{"content":[]}`)

func withExchange(ctx context.Context, e *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, e)
}

// wire stands between mcp-go's client and its transport and serves the exchange of each request.
type wire struct {
	transport.Interface
	// cancelGoneRequests is set for HTTP, over which mcp-go v1.2.1 leaves a server working on what nobody waits for.
	cancelGoneRequests bool
}

// httpWire is wire for transports that carry the protocol version in a header.
type httpWire struct {
	wire
	http transport.HTTPConnection
}

var (
	_ transport.BidirectionalInterface = (*wire)(nil)
	_ transport.HTTPConnection         = (*httpWire)(nil)
)

func (w *httpWire) SetProtocolVersion(version string) { w.http.SetProtocolVersion(version) }

// SetRequestHandler passes the handler on to transports that can take requests from the server.
func (w *wire) SetRequestHandler(h transport.RequestHandler) {
	if b, ok := w.Interface.(transport.BidirectionalInterface); ok {
		b.SetRequestHandler(h)
	}
}

// SendRequest implements transport.Interface.
func (w *wire) SendRequest(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	if e != nil && len(e.set) > 0 {
		params, err := overwrite(req.Params, e.set)
		if err != nil {
			return nil, err
		}
		req.Params = params
	}
	res, err := w.Interface.SendRequest(ctx, req)
	if e != nil && res != nil {
		e.result, e.err = res.Result, res.Error
		if req.Method == string(mcp.MethodToolsCall) && res.Result != nil {
			// Nobody looks at what mcp-go would make of it, and of a large result it would make several copies.
			brief := *res
			brief.Result = emptyResult
			res = &brief
		}
	}
	if err != nil && e != nil && ctx.Err() != nil && w.cancelGoneRequests {
		w.cancel(ctx, req)
	}
	return res, err
}

// cancel tells the server that nobody waits for req any more. Best effort, and out of the caller's way.
func (w *wire) cancel(ctx context.Context, req transport.JSONRPCRequest) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	go func() {
		defer end()
		_ = w.SendNotification(ctx, mcp.JSONRPCNotification{
			JSONRPC: mcp.JSONRPC_VERSION,
			Notification: mcp.Notification{
				Method: methodCancelled,
				Params: mcp.NotificationParams{AdditionalFields: map[string]any{
					"requestId": req.ID, "reason": "the caller no longer waits",
				}},
			},
		})
	}()
}

// overwrite sets members of params, whatever type mcp-go gave them.
func overwrite(params any, set map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, err
		}
	}
	for name, value := range set {
		fields[name] = value
	}
	return fields, nil
}
