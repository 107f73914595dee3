package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thawpool/thawpool/runtime/host"
)

// socketEnd is how the names of status sockets end; before it stands the owner, so that anybody can tell whether it lives.
const socketEnd = ".sock"

// stateBytes bounds what is read of one process's state.
const stateBytes = 16 << 20

// Publish lets `thawpool status` find this process: it serves its state on a socket in dir, which is made, closed to other
// users.
func (o *Ops) Publish(dir string) error {
	self, err := host.Self()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ln, err := listenUnix(filepath.Join(dir, self.String()+socketEnd))
	if err != nil {
		return fmt.Errorf("publish status: %w", err)
	}
	mux := http.NewServeMux()
	o.readRoutes(mux)
	o.callRoutes(mux)
	o.serve(ln, mux)
	return nil
}

// Found is one process that was found, or why it did not answer.
type Found struct {
	PID   int    `json:"pid"`
	State *State `json:"state,omitempty"`
	Error string `json:"error,omitempty"`
}

// Find asks every process that has published itself in dir, and removes what dead ones left. It is sorted by process.
func Find(ctx context.Context, dir string) ([]Found, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return []Found{}, nil
	}
	if err != nil {
		return nil, err
	}
	all := []Found{}
	var mu sync.Mutex
	var work sync.WaitGroup
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), socketEnd)
		if !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		owner, err := host.ParseOwner(name)
		if err != nil {
			continue // not one of ours
		}
		if !owner.Alive() {
			if err := removeIfThere(path); err != nil {
				return nil, err
			}
			continue
		}
		work.Go(func() {
			f := ask(ctx, path)
			f.PID = owner.PID
			mu.Lock()
			defer mu.Unlock()
			all = append(all, f)
		})
	}
	work.Wait()
	slices.SortFunc(all, func(a, b Found) int { return a.PID - b.PID })
	return all, nil
}

// askMax is how long a process may take to answer.
const askMax = 3 * time.Second

func ask(ctx context.Context, path string) Found {
	ctx, end := context.WithTimeout(ctx, askMax)
	defer end()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dialUnix(path) },
		DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://thawpool/api/state", nil)
	if err != nil {
		return Found{Error: err.Error()}
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return Found{Error: "it does not answer: " + err.Error()}
	}
	defer res.Body.Close()
	var s State
	if err := json.NewDecoder(io.LimitReader(res.Body, stateBytes)).Decode(&s); err != nil {
		return Found{Error: "it answered something else: " + err.Error()}
	}
	return Found{State: &s}
}
