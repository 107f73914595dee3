package actors

import (
	"context"
	"encoding/json"

	"github.com/thawpool/thawpool/runtime/guest"
)

// Bridge answers the calls that sandboxed code makes to the host ("call" frames). Everything it is given comes from
// hostile code. It is safe for concurrent use.
type Bridge interface {
	// Open begins the calls of one run: it resolves which servers the run may use and what its run frame tells the code
	// of them. An unknown name in req.Servers is an error whose text is for the model.
	Open(ctx context.Context, req Request) (BridgeRun, error)
}

// BridgeRun is the bridge for one run. It has no end of its own: the contexts of its calls end with the run.
type BridgeRun interface {
	// Scope is what the run frame carries.
	Scope() (servers []guest.Server, saved []string)
	// Call answers one call. ctx ends with the run or when the code cancels the call. The error's text is for the code;
	// a *guest.CallError keeps its type. call is what the receipt shows; it is valid also with an error.
	Call(ctx context.Context, verb string, args json.RawMessage) (value json.RawMessage, call InnerCall, err error)
}
