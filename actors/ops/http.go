package ops

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// policy is the page's: it may load its own files and ask its own process, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Listen serves operators at l until Close. It returns the address, with the port that was found for port 0.
func (o *Ops) Listen(l Listen) (string, error) {
	if err := l.Validate(); err != nil {
		return "", err
	}
	ln, g, err := l.open()
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	o.serve(ln, o.guard(g, o.routes(g)))
	return ln.Addr().String(), nil
}

func (o *Ops) routes(g *gate) http.Handler {
	mux := http.NewServeMux()
	if m := o.cfg.Metrics; m != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: readersMost}))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", o.readyz)
	o.readRoutes(mux)
	mux.HandleFunc("GET /api/events", o.events)
	mux.HandleFunc("GET /api/history", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, o.past.list()) })
	o.callRoutes(mux)
	o.actionRoutes(mux, g)
	pageRoutes(mux)
	return mux
}

// readRoutes are those that `thawpool status` and `thawpool doctor` use.
func (o *Ops) readRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/state", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, o.state()) })
	mux.HandleFunc("GET /api/checks", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, o.checks.list(r.Context(), o.cfg.Checks)) })
}

// callRoutes are the calls that have ended: all of them in short, and one with everything that is kept of it.
func (o *Ops) callRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/calls", func(w http.ResponseWriter, _ *http.Request) {
		if o.cfg.Recorder == nil {
			writeJSON(w, []struct{}{})
			return
		}
		last := o.cfg.Recorder.Last(1 << 20)
		for i := range last {
			last[i].Inner, last[i].Stdout, last[i].Stderr, last[i].Code = nil, "", "", ""
		}
		writeJSON(w, last)
	})
	mux.HandleFunc("GET /api/calls/{id}", func(w http.ResponseWriter, r *http.Request) {
		if o.cfg.Recorder != nil {
			for _, c := range append(o.cfg.Recorder.InFlight(), o.cfg.Recorder.Last(1<<20)...) {
				if c.ID == r.PathValue("id") {
					writeJSON(w, c)
					return
				}
			}
		}
		http.Error(w, "there is no such call, or it is too long ago", http.StatusNotFound)
	})
}

func (o *Ops) readyz(w http.ResponseWriter, _ *http.Request) {
	h := o.health.check()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if h.Ready {
		_, _ = w.Write([]byte("ready\n"))
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintf(w, "not ready\n%s\n", strings.Join(h.Causes, "\n"))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a reader that has gone needs nothing
}

// guard stands before everything: who asks, for what host, and what a browser may do with the answer.
func (o *Ops) guard(g *gate, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !g.meant(r.Host):
			http.Error(w, "this Host is not served here: use the address that --listen names", http.StatusMisdirectedRequest)
		case g.asks && r.URL.Path != "/healthz" && !g.knows(tokenOf(r)):
			h.Set("WWW-Authenticate", `Basic realm="thawpool: any name, the token as password", charset="UTF-8"`)
			http.Error(w, "the token of --listen-token-file is needed: as a Bearer token, or as the password", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// tokenOf is what a request gives for a token: a browser gives it as a password.
func tokenOf(r *http.Request) string {
	if t, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return t
	}
	_, password, _ := r.BasicAuth()
	return password
}
