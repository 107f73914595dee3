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

// Find asks every process that has published itself in dir for its state, and removes what dead ones left. It is sorted by
// process.
func Find(ctx context.Context, dir string) ([]Found, error) {
	return askAll(dir, func(p peer) Found {
		f := Found{PID: p.pid, State: &State{}}
		if err := p.ask(ctx, "/api/state", askMax, f.State); err != nil {
			f.State, f.Error = nil, err.Error()
		}
		return f
	})
}

// Checked is what one process says of itself: its health, and doctor's checks as it makes them.
type Checked struct {
	PID    int     `json:"pid"`
	Health *Health `json:"health,omitempty"`
	Checks []Check `json:"checks"`
	Error  string  `json:"error,omitempty"`
}

// FindChecks is Find for doctor's checks.
func FindChecks(ctx context.Context, dir string) ([]Checked, error) {
	return askAll(dir, func(p peer) Checked {
		var s State
		c := Checked{PID: p.pid, Checks: []Check{}}
		if err := errors.Join(p.ask(ctx, "/api/state", askMax, &s), p.ask(ctx, "/api/checks", checksMax, &c.Checks)); err != nil {
			c.Error = err.Error()
			return c
		}
		c.Health = &s.Health
		return c
	})
}

// peer is another process of this user.
type peer struct {
	pid    int
	socket string
}

// askAll asks all that have published themselves in dir, at the same time. The answers are sorted by process.
func askAll[T any](dir string, one func(peer) T) ([]T, error) {
	peers, err := peersIn(dir)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(peers))
	var work sync.WaitGroup
	for i, p := range peers {
		work.Go(func() { all[i] = one(p) })
	}
	work.Wait()
	return all, nil
}

func peersIn(dir string) (all []peer, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), socketEnd)
		owner, err := host.ParseOwner(name)
		if !ok || err != nil {
			continue // not one of ours
		}
		path := filepath.Join(dir, e.Name())
		if owner.Alive() {
			all = append(all, peer{pid: owner.PID, socket: path})
		} else if err := removeIfThere(path); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b peer) int { return a.pid - b.pid })
	return all, nil
}

// askMax is how long a process may take to answer.
const askMax = 3 * time.Second

// ask fills in answer with what the process has at path.
func (p peer) ask(ctx context.Context, path string, limit time.Duration, answer any) error {
	ctx, end := context.WithTimeout(ctx, limit)
	defer end()
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dialUnix(p.socket) },
		DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://thawpool"+path, nil)
	if err != nil {
		return err
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, stateBytes)).Decode(answer); err != nil {
		return fmt.Errorf("it answered something else: %w", err)
	}
	return nil
}
