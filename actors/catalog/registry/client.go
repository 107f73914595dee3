package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DefaultURL is the official registry.
const DefaultURL = "https://registry.modelcontextprotocol.io"

const (
	maxPages       = 5       // of one search
	pageSize       = 100     // the API's maximum
	maxAnswer      = 8 << 20 // bytes of one page
	maxQueries     = 3       // words that are looked for one by one when all together find nothing
	maxDescription = 300     // bytes shown
	requestTimeout = 15 * time.Second
)

// Client speaks the registry's HTTP API. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
}

// NewClient makes a Client for base, http or https, with or without the API's version as its path.
func NewClient(base string) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("registry address %q is not an http or https address", base)
	}
	if !strings.HasSuffix(u.Path, "/v0") && !strings.HasSuffix(u.Path, "/v0.1") {
		u = u.JoinPath("v0")
	}
	c := &Client{base: u}
	c.http = &http.Client{
		Timeout: requestTimeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 5 || r.URL.Host != u.Host {
				return errors.New("redirected to another host")
			}
			return nil
		},
	}
	return c, nil
}

// Find gives at most limit servers for words. The API matches a part of the name, so when all words together find nothing,
// each is looked for by itself.
func (c *Client) Find(ctx context.Context, words string, limit int) ([]Candidate, error) {
	queries := []string{strings.TrimSpace(words)}
	list, err := c.search(ctx, queries[0], limit)
	parts := strings.Fields(words)
	if err != nil || len(list) > 0 || len(parts) < 2 {
		return list, err
	}
	slices.SortStableFunc(parts, func(a, b string) int { return len(b) - len(a) }) // long words say more
	for _, word := range parts[:min(len(parts), maxQueries)] {
		more, err := c.search(ctx, word, limit-len(list))
		if err != nil {
			return list, err
		}
		for _, m := range more {
			if !slices.ContainsFunc(list, func(x Candidate) bool { return x.Name == m.Name }) {
				list = append(list, m)
			}
		}
		if len(list) >= limit {
			break
		}
	}
	return list, nil
}

// Get finds the latest version of the server with exactly that name.
func (c *Client) Get(ctx context.Context, name string) (Candidate, error) {
	list, err := c.each(ctx, name, func(got []Candidate) bool {
		return slices.ContainsFunc(got, func(x Candidate) bool { return x.Name == name })
	})
	if err != nil {
		return Candidate{}, err
	}
	for _, x := range list {
		if x.Name == name {
			return x, nil
		}
	}
	return Candidate{}, fmt.Errorf("%q: %w", name, ErrNotFound)
}

func (c *Client) search(ctx context.Context, words string, limit int) ([]Candidate, error) {
	list, err := c.each(ctx, words, func(got []Candidate) bool { return len(got) >= limit })
	return list[:min(len(list), max(limit, 0))], err
}

// each reads pages until enough says so, the pages end, or there are too many.
func (c *Client) each(ctx context.Context, words string, enough func([]Candidate) bool) ([]Candidate, error) {
	var list []Candidate
	cursor := ""
	for range maxPages {
		p, err := c.page(ctx, words, cursor)
		if err != nil {
			return list, err
		}
		for _, e := range p.Servers {
			if x, ok := e.candidate(c.base.Host); ok && !slices.ContainsFunc(list, func(y Candidate) bool { return x.Name == y.Name }) {
				list = append(list, x)
			}
		}
		next := p.Metadata.next()
		if enough(list) || next == "" || next == cursor {
			break
		}
		cursor = next
	}
	return list, nil
}

// page is one answer of the API.
type page struct {
	Servers  []item   `json:"servers"`
	Metadata metadata `json:"metadata"`
}

type metadata struct {
	NextCursor string `json:"nextCursor"`
	Older      string `json:"next_cursor"` // before 2025-09
}

func (m metadata) next() string {
	if m.NextCursor != "" {
		return m.NextCursor
	}
	return m.Older
}

func (c *Client) page(ctx context.Context, words, cursor string) (*page, error) {
	u := c.base.JoinPath("servers")
	q := url.Values{"limit": {strconv.Itoa(pageSize)}, "version": {"latest"}}
	if words != "" {
		q.Set("search", words)
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask registry %s: %w", c.base.Host, err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask registry %s: %w", c.base.Host, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask registry %s: it answers %s", c.base.Host, res.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask registry %s: %w", c.base.Host, err)
	case len(raw) > maxAnswer:
		return nil, fmt.Errorf("ask registry %s: its answer has more than %d bytes", c.base.Host, maxAnswer)
	}
	var p page
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("ask registry %s: its answer is not what the API gives: %w", c.base.Host, err)
	}
	return &p, nil
}
