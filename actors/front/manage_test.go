package front

import (
	"context"
	"errors"
	"testing"

	"github.com/thawpool/thawpool/actors/catalog"
	"github.com/thawpool/thawpool/runtime/guest"
)

// shop has one server to find and to add.
type shop struct{ added []string }

func (s *shop) Find(_ context.Context, words string, limit int) ([]catalog.Found, error) {
	if words == "broken" {
		return nil, errors.New("the registry is down")
	}
	if words == "nothing" {
		return nil, nil
	}
	return []catalog.Found{{Name: "io.x/time", Description: "tells the time", Source: "catalog", Installed: limit == 3}}, nil
}

func (s *shop) Add(_ context.Context, name string, persist bool) (guest.Server, error) {
	if name != "io.x/time" {
		return guest.Server{}, errors.New("no such server")
	}
	if persist {
		s.added = append(s.added, name)
	}
	return guest.Server{Name: "time", Alias: "time"}, nil
}

// The tools for servers exist where there is somebody to do their work, and check what they are given.
func TestManageTools(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := config(&script{})
		s := &shop{}
		cfg.Manager = s
		w := dial(t.Context(), t, cfg).open()
		w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if d := match(map[string]any{"tools": []any{map[string]any{"name": "mcp_add"}, map[string]any{"name": "mcp_find"},
			map[string]any{"name": "run_python"}}}, w.recv()["result"], ""); d != "" {
			t.Error(d)
		}
		for _, tt := range []struct {
			tool, args string
			failed     bool
			text       string
		}{
			{"mcp_find", `{"query":"time"}`, false, "io.x/time: tells the time [catalog]"},
			{"mcp_find", `{"query":"time","limit":3}`, false, "io.x/time (installed): tells the time [catalog]"},
			{"mcp_find", `{"query":"nothing","limit":null}`, false, "no server found"},
			{"mcp_find", `{"query":"broken"}`, true, "the registry is down"},
			{"mcp_find", `{}`, true, "query is missing: a string"},
			{"mcp_find", `{"query":5}`, true, "query must be a string"},
			{"mcp_find", `{"query":"x","limit":2.5}`, true, "limit must be a whole number"},
			{"mcp_add", `{"name":"x","persist":1}`, true, "persist must be true or false"},
			{"mcp_find", `{"query":"x","limit":0}`, true, "limit must be from 1 to 50 and is 0"},
			{"mcp_find", `{"query":"x","lmit":1}`, true, `"lmit" is not an argument of mcp_find`},
			{"mcp_add", `{"name":"io.x/time","persist":true}`, false, "added time: call it as mcp_time in run_python"},
			{"mcp_add", `{"name":"other"}`, true, "no such server"},
			{"mcp_add", `{"name":null}`, true, "name is missing: a string"},
		} {
			w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"` + tt.tool + `","arguments":` + tt.args + `}}`)
			m := w.recv()
			failed, _ := m["result"].(map[string]any)["isError"].(bool)
			if text(t, m) != tt.text || failed != tt.failed {
				t.Errorf("%s %s: %v %q", tt.tool, tt.args, failed, text(t, m))
			}
		}
		if len(s.added) != 1 {
			t.Errorf("added %v", s.added)
		}
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
	})
}
