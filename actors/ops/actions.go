package ops

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// actionBytes bounds the body of an action.
const actionBytes = 4 << 10

// actionRoutes are what an operator can do. Each is logged.
func (o *Ops) actionRoutes(mux *http.ServeMux, g *gate) {
	do := func(pattern string, act func(r *http.Request) (string, int)) {
		mux.HandleFunc("POST "+pattern, func(w http.ResponseWriter, r *http.Request) {
			if !g.mayAct(r) {
				http.Error(w, "actions need the token as a Bearer token, or must come from this page", http.StatusForbidden)
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, actionBytes)
			why, code := act(r)
			if code >= http.StatusBadRequest {
				http.Error(w, why, code)
				return
			}
			o.cfg.Log.Warn().Str("event", "operator").Str("action", r.URL.Path).Msg(why)
			w.WriteHeader(code)
		})
	}
	do("/api/calls/{id}/kill", func(r *http.Request) (string, int) {
		if o.cfg.Recorder == nil || !o.cfg.Recorder.Kill(r.PathValue("id")) {
			return "that call has ended", http.StatusNotFound
		}
		return "call killed", http.StatusNoContent
	})
	do("/api/servers/{name}/restart", func(r *http.Request) (string, int) {
		if o.cfg.Servers == nil {
			return "there are no servers", http.StatusNotFound
		}
		if err := o.cfg.Servers.Restart(r.PathValue("name")); err != nil {
			return err.Error(), http.StatusNotFound
		}
		return "server restarted", http.StatusNoContent
	})
	do("/api/pools/{name}/resize", o.resize)
	do("/api/pools/{name}/drain", o.drain)
}

func (o *Ops) resize(r *http.Request) (string, int) {
	var body struct {
		Size *int `json:"size"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Size == nil {
		return `the body must be {"size": N}`, http.StatusBadRequest
	}
	sys, err := o.cfg.System()
	if err == nil {
		err = sys.Resize(r.PathValue("name"), *body.Size)
	}
	if err != nil {
		return err.Error(), http.StatusBadRequest
	}
	return "pool resized", http.StatusNoContent
}

// drainMax is how long the drain goes on being waited for, in the background.
const drainMax = 5 * time.Minute

// drain begins to end a pool for good. Running calls go on, so nobody waits for its end here.
func (o *Ops) drain(r *http.Request) (string, int) {
	name := r.PathValue("name")
	sys, err := o.cfg.System()
	if err != nil {
		return err.Error(), http.StatusBadRequest
	}
	if _, ok := sys.Stats().Profiles[name]; !ok {
		return "there is no such pool", http.StatusNotFound
	}
	o.work.Go(func() {
		ctx, end := context.WithTimeout(o.life, drainMax)
		defer end()
		if err := sys.Drain(ctx, name); err != nil && o.life.Err() == nil {
			o.cfg.Log.Warn().Str("event", "operator").Err(err).Msg("the pool is not empty yet")
		}
	})
	return "pool drains for good", http.StatusAccepted
}

// mayAct tells whether a request may change something: it has the Bearer token, which no page of another origin can know,
// or its browser says that it comes from our own page. Whoever reaches a unix socket is the user, unless a browser reaches
// it through a proxy.
func (g *gate) mayAct(r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && g.knows(bearer) {
		return true
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	if site == "" && origin == "" {
		return g.unix
	}
	if site != "" && site != "same-origin" {
		return false
	}
	u, err := url.Parse(origin)
	return err == nil && (origin == "" || u.Host == r.Host)
}
