package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/runtime/guest"
)

// Manager finds and adds upstream servers. Errors are for the model to read.
type Manager interface {
	Find(ctx context.Context, words string, limit int) ([]catalog.Found, error)
	Add(ctx context.Context, name string, persist bool) (guest.Server, error)
}

// The names are those that agents know from other gateways.
const (
	findName = "mcp_find"
	addName  = "mcp_add"
	// findDefault and findMost bound what one search gives a model to read.
	findDefault = 10
	findMost    = 50
)

// addManaging offers the tools to find and add servers, where there is somebody to do it.
func (f *Front) addManaging(s *server.MCPServer) {
	if f.cfg.Manager == nil {
		return
	}
	hints := func(title string, readOnly bool) []mcp.ToolOption {
		return []mcp.ToolOption{
			mcp.WithTitleAnnotation(title), mcp.WithReadOnlyHintAnnotation(readOnly), mcp.WithDestructiveHintAnnotation(false),
			mcp.WithIdempotentHintAnnotation(true), mcp.WithOpenWorldHintAnnotation(true),
		}
	}
	s.AddTool(mcp.NewTool(findName, append(hints("Find MCP servers", true),
		mcp.WithDescription("Search for MCP servers that could be added."),
		mcp.WithString("query", mcp.Required()), mcp.WithNumber("limit"))...), f.find)
	s.AddTool(mcp.NewTool(addName, append(hints("Add an MCP server", false),
		mcp.WithDescription("Add a server by its name from "+findName+"; code can call it at once."),
		mcp.WithString("name", mcp.Required()), mcp.WithBoolean("persist"))...), f.add)
}

func (f *Front) find(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var query string
	limit := findDefault
	err := pick(req.Params.RawArguments, findName, map[string]any{"query": &query, "limit": &limit}, "query")
	if err == nil && (limit < 1 || limit > findMost) {
		err = fmt.Errorf("limit must be from 1 to %d and is %d", findMost, limit)
	}
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	found, err := f.cfg.Manager.Find(ctx, query, limit)
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	var b strings.Builder
	for _, s := range found {
		state := ""
		if s.Installed {
			state = " (installed)"
		}
		fmt.Fprintf(&b, "%s%s: %s [%s]\n", s.Name, state, s.Description, s.Source)
	}
	if len(found) == 0 {
		b.WriteString("no server found\n")
	}
	return mcp.NewToolResultStructured(map[string]any{"servers": found}, strings.TrimSuffix(b.String(), "\n")), nil
}

func (f *Front) add(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var name string
	var persist bool
	if err := pick(req.Params.RawArguments, addName, map[string]any{"name": &name, "persist": &persist}, "name"); err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	added, err := f.cfg.Manager.Add(ctx, name, persist)
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultStructured(added, fmt.Sprintf("added %s: call it as mcp_%s in run_python", added.Name, added.Alias)), nil
}

// pick reads arguments of a tool into their places. null is the same as absent.
func pick(raw json.RawMessage, tool string, into map[string]any, required string) error {
	var args map[string]json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &args) != nil {
		return errors.New("arguments must be an object")
	}
	if v := args[required]; v == nil || string(v) == "null" {
		return fmt.Errorf("%s is missing: a string", required)
	}
	for name, v := range args {
		place, ok := into[name]
		if !ok {
			return fmt.Errorf("%s is not an argument of %s", quote(name), tool)
		}
		if err := json.Unmarshal(v, place); err != nil {
			return fmt.Errorf("%s must be %s", name, wanted(place))
		}
	}
	return nil
}

// wanted names the JSON values that fit into place.
func wanted(place any) string {
	switch place.(type) {
	case *string:
		return "a string"
	case *bool:
		return "true or false"
	}
	return "a whole number"
}
