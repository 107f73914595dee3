package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, header, value, body string
		status                    int
		kind                      error
		want                      string
	}{
		{"401", "WWW-Authenticate", `Bearer error="invalid_token", hint="` + token + `"`, "", 401, ErrRefused, "invalid_token"},
		{"403", "", "", `{"error":"no scope for ` + token + `"}`, 403, ErrRefused, "no scope"},
		{"429", "Retry-After", "120", "", 429, ErrBusy, "2m0s"},
		{"429 bare", "", "", "", 429, ErrBusy, "429"},
		{"500 page", "", "", "<html>secret stack</html>", 500, ErrLost, "500"},
		{"503 text", "Content-Type", "text/plain", "down for repair", 503, ErrLost, "down for repair"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, url := newPeer(t)
			c := dial(t, httpConfig(url))
			p.set(func() { p.answer = refusing(tc.status, tc.header, tc.value, tc.body) })
			_, err := call(t, c, "t", `{}`)
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), `"far"`) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(fmt.Sprint(err), token) || strings.Contains(fmt.Sprint(err), "secret stack") {
				t.Errorf("it tells too much: %v", err)
			}
			if n := p.count("tools/call"); n != 1 {
				t.Errorf("called %d times", n)
			}
		})
	}
}

func TestTooManyRequestsKeepsAway(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	c := dial(t, httpConfig(url))
	p.set(func() { p.answer = refusing(429, "Retry-After", "3600", "") })
	for range 20 {
		if _, err := call(t, c, "t", `{}`); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
	}
	if n := p.count("tools/call"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestNoCredentialsToAnotherHost(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{302, 307, 308} {
		p, url := newPeer(t)
		c := dial(t, httpConfig(url))
		p.set(func() { p.answer = refusing(status, "Location", other.URL+"/steal", "") })
		_, err := call(t, c, "t", `{}`)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "another address, "+other.URL+";") || strings.Contains(err.Error(), token) {
			t.Errorf("%d: %v", status, err)
		}
	}
	p, url := newPeer(t)
	p.answer = func(w http.ResponseWriter, r *http.Request, _ json.RawMessage, _ string) bool {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		return true
	}
	if _, err := Dial(t.Context(), httpConfig(url)); !errors.Is(err, ErrRefused) {
		t.Errorf("dial: %v", err)
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went to the other host", n)
	}
}

func TestRedirectWithinTheOriginIsFollowed(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	p.answer = func(w http.ResponseWriter, r *http.Request, _ json.RawMessage, _ string) bool {
		if strings.HasSuffix(r.URL.Path, "/") {
			return false
		}
		http.Redirect(w, r, r.URL.Path+"/", http.StatusPermanentRedirect)
		return true
	}
	c := dial(t, httpConfig(url))
	mustCall(t, c, "t", `{}`)
}

func TestDialErrorsOfHTTP(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	notMCP := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(notMCP.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	t.Cleanup(page.Close)
	forbidden := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }))
	t.Cleanup(forbidden.Close)
	for name, tc := range map[string]struct{ url, want string }{
		"refused":   {closed.URL + "?key=" + token, "connection refused"},
		"404":       {notMCP.URL, "streamable HTTP is refused there"},
		"a page":    {page.URL, "content type"},
		"forbidden": {forbidden.URL, "HTTP 403"},
		"no url":    {"ftp://x", "not an http"},
	} {
		_, err := Dial(t.Context(), httpConfig(tc.url))
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), `"far"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where only the scheme differs, naming the host would name what the definition has.
func TestRedirectToAnotherSchemeIsToldWhole(t *testing.T) {
	t.Parallel()
	p, url := newPeer(t)
	secure := "https" + strings.TrimPrefix(url, "http")
	p.answer = func(w http.ResponseWriter, r *http.Request, _ json.RawMessage, _ string) bool {
		http.Redirect(w, r, secure, http.StatusPermanentRedirect)
		return true
	}
	_, err := Dial(t.Context(), httpConfig(url))
	if origin := secure[:strings.LastIndex(secure, "/")]; !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "another address, "+origin+";") {
		t.Errorf("%v", err)
	}
}
