package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/thawpool/thawpool/cmd/thawpool/bench"
)

// nameWatched is thawpool with all that operators can have of it turned on.
const nameWatched = "watched"

const (
	// scrapeEvery is how often its metrics are fetched; Prometheus does so every 15 s by default.
	scrapeEvery = time.Second
	// watchedMost is what being watched may add to the CPU of a call, percent.
	watchedMost = 5
)

// watching is what looks at a watched server from outside.
type watching struct {
	traces *httptest.Server
	end    context.CancelFunc
	done   chan struct{}
	failed error // of the last scrape, once done
}

// serveWatched starts a server that is looked at: its metrics are scraped, its traces are taken, its audit log is written.
func (b *benchRun) serveWatched(ctx context.Context, dir string) (*served, *watching, error) {
	at, err := freeAddress()
	if err != nil {
		return nil, nil, err
	}
	logs := filepath.Join(dir, "watched")
	if err := errors.Join(os.Mkdir(logs, 0o755), os.Chmod(logs, 0o777)); err != nil { // the account writes there
		return nil, nil, err
	}
	w := &watching{done: make(chan struct{}), traces: httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))}
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	if err := os.Setenv(endpoint, w.traces.URL); err != nil { // for this server only
		return nil, nil, err
	}
	s, err := b.serve(ctx, io.Discard, "--listen="+at, "--audit="+filepath.Join(logs, "audit.jsonl"), "--self-check=10s")
	if err = errors.Join(err, os.Unsetenv(endpoint)); err != nil {
		w.traces.Close()
		return nil, nil, fmt.Errorf("%s: %w", nameWatched, err)
	}
	ctx, w.end = context.WithCancel(ctx)
	go w.scrape(ctx, "http://"+at+"/metrics")
	return s, w, nil
}

// freeAddress is a loopback address that nobody used a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// scrape fetches metrics until ctx ends.
func (w *watching) scrape(ctx context.Context, url string) {
	defer close(w.done)
	tick := time.NewTicker(scrapeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := fetchAll(ctx, url); ctx.Err() == nil {
			w.failed = err
		}
	}
}

func fetchAll(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// close ends the looking, and tells whether it failed.
func (w *watching) close() error {
	if w == nil {
		return nil
	}
	w.end()
	<-w.done
	w.traces.Close()
	if w.failed != nil {
		return fmt.Errorf("scrape: %w", w.failed)
	}
	return nil
}

// noteWatched says what being watched costs: each round of one with the same round of the other.
func (b *benchRun) noteWatched(all []*contender) {
	var plain, watched *contender
	for _, c := range all {
		switch c.name {
		case nameThawpool:
			plain = c
		case nameWatched:
			watched = c
		}
	}
	if watched == nil || len(plain.rounds) != len(watched.rounds) {
		return
	}
	var more []float64
	for i, r := range plain.rounds {
		if r.LifeCPU > 0 {
			more = append(more, 100*(watched.rounds[i].LifeCPU/r.LifeCPU-1))
		}
	}
	s := bench.SpreadOf(more)
	b.note("watched: metrics scraped every second, traces sent, audit log, self-check. It takes %.1f %% more CPU a life than without "+
		"[%.1f–%.1f]; at most %d %% are wanted", s.Median, s.Min, s.Max, watchedMost)
}
