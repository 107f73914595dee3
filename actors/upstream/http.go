package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"go.opentelemetry.io/otel/propagation"
)

// Bounds of HTTP.
const (
	dialTimeout   = 10 * time.Second // TCP and TLS, each
	maxRedirects  = 5
	maxErrorBody  = 4 << 10          // bytes of an error's body that are read
	maxRetryAfter = 5 * time.Minute  // a server that says to stay away for longer is asked again after this
	minRetryAfter = time.Second      // also what is taken when a 429 says nothing
	maxListenWait = 60 * time.Second // between two tries to open the notification stream
)

// roundTripper guards one server's HTTP: it adds the entry's headers, turns refusals into errors, keeps away from a
// server that asked for it, bounds every message, and sees a lost session where servers are vague about it.
type roundTripper struct {
	base    http.RoundTripper
	origin  *url.URL          // the only place that headers go to
	headers map[string]string // of the entry
	max     int64
	now     func() time.Time

	mu      sync.Mutex // guards what follows
	until   time.Time  // no request before
	listens int        // tries to open the notification stream that failed in a row
}

// web is the HTTP of one connection.
type web struct {
	base       *http.Transport
	streamable *http.Client
	older      *http.Client
}

func newWeb(cfg *Config) *web {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:   dialTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       time.Minute,
		ExpectContinueTimeout: time.Second,
	}
	origin, _ := url.Parse(cfg.URL) // validate has parsed it
	rt := &roundTripper{base: base, origin: origin, headers: cfg.Headers, max: cfg.MaxMessage, now: time.Now}
	return &web{
		base:       base,
		streamable: &http.Client{Transport: streamable{rt}, CheckRedirect: checkRedirect},
		older:      &http.Client{Transport: rt, CheckRedirect: checkRedirect},
	}
}

// checkRedirect follows only within one origin: headers of the entry, tokens among them, go to no other host, and an
// answer from another host is not the configured server's.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host {
		return &fault{ErrRefused, fmt.Sprintf("it redirects to another address, %s://%s; if that is right, put that into the server's url", req.URL.Scheme, req.URL.Host)}
	}
	if len(via) > maxRedirects {
		return &fault{ErrRefused, "it redirects in a circle"}
	}
	if req.Method != first.Method {
		return &fault{ErrRefused, fmt.Sprintf("it redirects to %s in a way that loses the request; put that path into the server's url", req.URL.Path)}
	}
	return nil
}

// RoundTrip implements http.RoundTripper.
func (rt *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	return rt.do(req, false)
}

// streamable is the roundTripper of streamable HTTP, where a GET opens the stream of notifications.
type streamable struct{ *roundTripper }

func (s streamable) RoundTrip(req *http.Request) (*http.Response, error) {
	return s.do(req, req.Method == http.MethodGet && req.Header.Get("Last-Event-ID") == "")
}

// do sends req. listening tells that it opens the stream of notifications, which is worth having but not needed.
func (rt *roundTripper) do(req *http.Request, listening bool) (*http.Response, error) {
	if err := rt.wait(req.Context(), listening); err != nil {
		return nil, err
	}
	res, err := rt.base.RoundTrip(rt.withHeaders(req))
	if listening {
		rt.listened(err == nil && res.StatusCode == http.StatusOK)
	}
	if err != nil {
		return nil, err
	}
	if code := res.StatusCode; listening && code >= 400 && code < 500 && code != http.StatusNotFound && code != http.StatusTooManyRequests {
		// mcp-go v1.2.1: tries the stream again every second for ever, except after a 405.
		_ = res.Body.Close()
		return emptyResponse(req, http.StatusMethodNotAllowed), nil
	}
	if err := rt.refusal(res); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	if res.StatusCode == http.StatusBadRequest && req.Header.Get(transport.HeaderKeySessionID) != "" && mentionsSession(res) {
		// Some servers, those on the TypeScript SDK's examples among them, answer 400 where the protocol wants 404.
		_ = res.Body.Close()
		return emptyResponse(req, http.StatusNotFound), nil
	}
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	e, _ := req.Context().Value(exchangeKey{}).(*exchange)
	res.Body = &limitedBody{ReadCloser: res.Body, max: rt.max, stream: mediaType == "text/event-stream", request: e}
	return res, nil
}

// withHeaders is req with the entry's headers. net/http sends redirects through here too, so the origin is looked at
// once more.
func (rt *roundTripper) withHeaders(req *http.Request) *http.Request {
	if req.URL.Scheme != rt.origin.Scheme || req.URL.Host != rt.origin.Host {
		return req
	}
	req = req.Clone(req.Context())
	for name, value := range rt.headers {
		if strings.EqualFold(name, "Host") {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	if req.Header.Get("traceparent") == "" { // the entry may have one of its own
		propagation.TraceContext{}.Inject(req.Context(), propagation.HeaderCarrier(req.Header)) // nothing without a trace
	}
	return req
}

// wait refuses at once while the server has asked to be left alone, and slows down a stream that keeps failing.
func (rt *roundTripper) wait(ctx context.Context, listening bool) error {
	rt.mu.Lock()
	until, listens := rt.until, rt.listens
	rt.mu.Unlock()
	if d := until.Sub(rt.now()); d > 0 {
		return &fault{ErrBusy, fmt.Sprintf("it asked for fewer requests; it is asked again in %s", d.Round(time.Second))}
	}
	if !listening || listens == 0 {
		return nil
	}
	pause := time.NewTimer(min(time.Second<<min(listens, 6), maxListenWait))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (rt *roundTripper) listened(ok bool) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.listens++; ok {
		rt.listens = 0
	}
}

// refusal is the error for a status that mcp-go would hide or misread. It never repeats anything of the request.
func (rt *roundTripper) refusal(res *http.Response) error {
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized:
		return &fault{ErrRefused, "it wants a login (HTTP 401): the token in its headers is missing, wrong or expired" + challenge(res)}
	case code == http.StatusForbidden:
		return &fault{ErrRefused, "it refuses access (HTTP 403): the account or token it is given may not do this" + excerpt(res)}
	case code == http.StatusProxyAuthRequired:
		return &fault{ErrRefused, "the HTTP proxy wants a login (HTTP 407)"}
	case code == http.StatusTooManyRequests:
		d := rt.backOff(res)
		return &fault{ErrBusy, fmt.Sprintf("it wants fewer requests (HTTP 429); it is asked again in %s", d.Round(time.Second))}
	case code >= 500 && !isJSON(res):
		return &fault{ErrLost, fmt.Sprintf("it failed with HTTP %d %s", code, http.StatusText(code)) + excerpt(res)}
	}
	return nil
}

// backOff notes until when the server wants no requests.
func (rt *roundTripper) backOff(res *http.Response) time.Duration {
	d := minRetryAfter
	if s := res.Header.Get("Retry-After"); s != "" {
		if n, err := strconv.ParseUint(s, 10, 31); err == nil {
			d = time.Duration(n) * time.Second
		} else if at, err := http.ParseTime(s); err == nil {
			d = at.Sub(rt.now())
		}
	}
	d = min(max(d, minRetryAfter), maxRetryAfter)
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.until = rt.now().Add(d)
	return d
}

func isJSON(res *http.Response) bool {
	mediaType, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return mediaType == "application/json"
}

// challenge is the scheme and error of WWW-Authenticate, which tell an expired token from a missing one.
func challenge(res *http.Response) string {
	h := res.Header.Get("WWW-Authenticate")
	if h == "" {
		return ""
	}
	return "; it says " + strconv.Quote(h[:min(len(h), 200)])
}

func excerpt(res *http.Response) string {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 500))
	body = bytes.TrimSpace(body)
	if len(body) == 0 || bytes.HasPrefix(body, []byte("<")) { // pages for people
		return ""
	}
	return "; it says " + strconv.Quote(string(body))
}

// mentionsSession looks into the body of a refusal, and leaves it readable.
func mentionsSession(res *http.Response) bool {
	head, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), res.Body), res.Body}
	return strings.Contains(strings.ToLower(string(head)), "session")
}

func emptyResponse(req *http.Request, code int) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// limitedBody fails a body, or one event of a stream, that is longer than max.
type limitedBody struct {
	io.ReadCloser
	max     int64
	stream  bool
	request *exchange // mcp-go v1.2.1 drops the error of a stream; it is told here; may be nil
	n       int64
	last    byte
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.stream {
		b.n += int64(n)
	} else {
		for _, c := range p[:n] {
			b.n++
			if c == '\n' && b.last == '\n' { // an empty line ends an event
				b.n = 0
			}
			if c != '\r' {
				b.last = c
			}
		}
	}
	if b.n > b.max {
		tooLarge := &fault{ErrTooLarge, fmt.Sprintf("the answer is larger than %d bytes, the most that is taken", b.max)}
		if b.request != nil {
			b.request.failed.Store(tooLarge)
		}
		return n, tooLarge
	}
	return n, err
}
