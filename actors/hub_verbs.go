package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/actors/catalog/config"
	"github.com/thawpool/thawpool/runtime/guest"
)

// verb answers one verb of package guest. What it returns is encoded as JSON.
type verb func(ctx context.Context, r *hubRun, args json.RawMessage) (any, error)

// verbs are all that sandboxed code can ask, but for tools.call. None takes a path.
var verbs = map[string]verb{
	guest.VerbServers:      asked(listServers),
	guest.VerbDescribe:     asked(describeServer),
	guest.VerbTools:        asked(listTools),
	guest.VerbDocs:         asked(toolDocs),
	guest.VerbSearch:       asked(searchTools),
	guest.VerbCapability:   asked(capability),
	guest.VerbMemorySave:   asked(saveMemory),
	guest.VerbMemoryLoad:   asked(loadMemory),
	guest.VerbMemoryDelete: asked(deleteMemory),
	guest.VerbMemoryList:   asked(listMemories),
	guest.VerbMemoryInfo:   asked(memoryInfo),
	guest.VerbToolSave:     asked(saveTool),
	guest.VerbToolLoad:     asked(loadTool),
	guest.VerbToolDelete:   asked(deleteTool),
	guest.VerbToolList:     asked(listSaved),
	guest.VerbFind:         asked(findServers),
	guest.VerbAdd:          asked(addServer),
}

// asked decodes the arguments for a verb.
func asked[A any](do func(ctx context.Context, r *hubRun, a A) (any, error)) verb {
	return func(ctx context.Context, r *hubRun, args json.RawMessage) (any, error) {
		var a A
		if err := decode(args, &a); err != nil {
			return nil, err
		}
		return do(ctx, r, a)
	}
}

// decode reads the arguments of a verb: one object, with nothing in it that the verb does not know.
func decode(args json.RawMessage, into any) error {
	if args = bytes.TrimSpace(args); len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		_, more := d.Token()
		if errors.Is(more, io.EOF) && args[0] == '{' {
			return nil
		}
		err = errors.New("they must be one object")
	}
	return &guest.CallError{Type: guest.ErrArguments, Message: clipText(fmt.Sprintf("arguments of the call to the host: %v", err), 1024)}
}

type nothing struct{}

type onServer struct {
	Server string `json:"server"`
}

// listServers tells the servers of the run with the states of their connections.
func listServers(_ context.Context, r *hubRun, _ nothing) (any, error) {
	snap := r.snapshot()
	list := snap.Servers()
	for i := range list {
		if def, err := snap.Resolve(list[i].Name); err == nil {
			r.hub.stateOf(def, &list[i])
		}
	}
	return list, nil
}

// stateOf fills what the catalog cannot know.
func (h *Hub) stateOf(def config.Server, info *catalog.ServerInfo) {
	info.State = string(ClientIdle)
	if st, ok := h.status(def); ok {
		info.State, info.Error = string(st.State), st.Error
	}
}

// describeServer connects to the server if nothing is known of it. That it cannot be reached is part of the answer.
func describeServer(ctx context.Context, r *hubRun, a onServer) (any, error) {
	def, err := r.hub.resolve(r.snapshot(), a.Server)
	if err != nil {
		return nil, err
	}
	snap, unreachable := r.know(ctx, def)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	d, err := snap.Describe(def.Name, r.hub.show)
	if err != nil {
		return nil, err
	}
	r.hub.stateOf(def, &d.ServerInfo)
	if unreachable != nil {
		d.State, d.Error = string(ClientFailed), unreachable.Error()
	}
	return d, nil
}

func listTools(ctx context.Context, r *hubRun, a onServer) (any, error) {
	def, err := r.hub.resolve(r.snapshot(), a.Server)
	if err != nil {
		return nil, err
	}
	snap, err := r.know(ctx, def)
	if err != nil {
		return nil, err
	}
	return snap.Tools(def.Name, r.hub.show)
}

func toolDocs(ctx context.Context, r *hubRun, a struct {
	Server string         `json:"server"`
	Tool   string         `json:"tool"`
	Detail catalog.Detail `json:"detail"`
}) (any, error) {
	def, err := r.hub.resolve(r.snapshot(), a.Server)
	if err != nil {
		return nil, err
	}
	snap, err := r.know(ctx, def)
	if err != nil {
		return nil, err
	}
	docs, err := snap.Docs(def.Name, a.Tool, a.Detail, r.hub.show)
	if err == nil && a.Tool != "" && len(docs) == 0 {
		err = &guest.CallError{Type: guest.ErrDenied, Message: fmt.Sprintf("tool %q of server %q is not allowed by policy", a.Tool, def.Name)}
	}
	return docs, err
}

// defaultSearch is how many tools a search gives that does not say.
const defaultSearch = 5

func searchTools(ctx context.Context, r *hubRun, a struct {
	Query  string         `json:"query"`
	Limit  *int           `json:"limit"`
	Detail catalog.Detail `json:"detail"`
}) (any, error) {
	limit := defaultSearch
	if a.Limit != nil {
		limit = *a.Limit
	}
	if limit < 1 || limit > catalog.MaxSearch {
		return nil, &guest.CallError{Type: guest.ErrValue, Message: fmt.Sprintf("limit must be from 1 to %d, not %d", catalog.MaxSearch, limit)}
	}
	if len(a.Query) > maxQuery {
		return nil, &guest.CallError{Type: guest.ErrValue, Message: fmt.Sprintf("query has %d bytes; at most %d are searched for", len(a.Query), maxQuery)}
	}
	return r.search(ctx, a.Query, limit, a.Detail)
}

// maxQuery bounds a search's words, in bytes.
const maxQuery = 4 << 10

func capability(_ context.Context, r *hubRun, _ nothing) (any, error) {
	return r.snapshot().CapabilitySummary(), nil
}
