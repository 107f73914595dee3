//go:build integration

package image_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/image"
)

// registry serves one image under every name and tag, as the distribution API says. What it is asked for is kept.
type registry struct {
	blobs map[string][]byte // by digest
	kinds map[string]string // media type, by digest
	tag   string            // digest of the index

	mu    sync.Mutex
	asked []string
}

func newRegistry(t *testing.T, s saved) (*registry, string) {
	t.Helper()
	r := &registry{blobs: map[string][]byte{}, kinds: map[string]string{}}
	add := func(kind string, data []byte) string {
		key := digest.FromBytes(data).String()
		r.blobs[key], r.kinds[key] = data, kind
		return key
	}
	add(ocispec.MediaTypeImageConfig, s.config)
	add(ocispec.MediaTypeImageManifest, s.manifest)
	for _, layer := range s.layers {
		add(ocispec.MediaTypeImageLayer, layer)
	}
	r.tag = add(ocispec.MediaTypeImageIndex, s.index)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, strings.TrimPrefix(server.URL, "http://")
}

func (r *registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	key := path.Base(req.URL.Path)
	if key == "latest" {
		key = r.tag
	}
	r.mu.Lock()
	r.asked = append(r.asked, key)
	data, ok := r.blobs[key]
	r.mu.Unlock()
	if !ok {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", r.kinds[key])
	w.Header().Set("Docker-Content-Digest", key)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	if req.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}

// The index names another platform first, which the registry does not even have.
func TestPullTakesThisPlatform(t *testing.T) {
	ctx, b := newBench(t)
	s := save(t, nil, nil, layerOf(t, python3))
	_, host := newRegistry(t, s)
	ref, err := image.Pull(ctx, b.Client, host+"/team/py", b.log)
	if err != nil || ref != host+"/team/py:latest" {
		t.Fatalf("got %q, %v", ref, err)
	}
	ready, err := image.Ensure(ctx, b.Client, host+"/team/py", b.log)
	if err != nil || ready.Python != "/usr/bin/python3" {
		t.Fatalf("got %+v, %v", ready, err)
	}
	b.checkGuest(ctx, t, ready, false)
	infos, err := image.List(ctx, b.Client)
	if err != nil || len(infos) != 1 || infos[0].Ref != ref {
		t.Errorf("listed %+v, %v", infos, err)
	}
}

func TestNewerPullReplaces(t *testing.T) {
	ctx, b := newBench(t)
	first := save(t, nil, nil, layerOf(t, python3))
	second := save(t, nil, nil, layerOf(t, python3, tar.Header{Name: "new", Typeflag: tar.TypeDir, Mode: 0o755}))
	r, host := newRegistry(t, first)
	var chains []string
	for range 2 {
		ref, err := image.Pull(ctx, b.Client, host+"/py", b.log)
		if err != nil {
			t.Fatal(err)
		}
		ready, err := image.Ensure(ctx, b.Client, ref, b.log)
		if err != nil {
			t.Fatal(err)
		}
		chains = append(chains, ready.ChainID)
		next, _ := newRegistry(t, second)
		r.mu.Lock()
		r.blobs, r.kinds, r.tag = next.blobs, next.kinds, next.tag
		r.mu.Unlock()
	}
	if left := b.left(ctx, t); chains[0] == chains[1] || strings.Contains(left, chains[0]) || !strings.Contains(left, chains[1]) {
		t.Errorf("chains %q; left %s", chains, left)
	}
}

func TestPullThatFailsLeavesNothing(t *testing.T) {
	ctx, b := newBench(t)
	s := save(t, nil, nil, layerOf(t, python3))
	for name, spoil := range map[string]func(r *registry){
		"no image":        func(r *registry) { r.tag = "none" },
		"a layer is gone": func(r *registry) { delete(r.blobs, digest.FromBytes(s.layers[0]).String()) },
		"a layer is another": func(r *registry) {
			r.blobs[digest.FromBytes(s.layers[0]).String()] = make([]byte, len(s.layers[0]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, host := newRegistry(t, s)
			spoil(r)
			_, err := image.Pull(ctx, b.Client, host+"/py", b.log)
			if !errors.Is(err, runtime.ErrImage) {
				t.Errorf("got %v", err)
			}
			if left := b.left(ctx, t); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

func TestPullRefusesOurOwnNames(t *testing.T) {
	ctx, b := newBench(t)
	if _, err := image.Pull(ctx, b.Client, image.Repository+"python:3.14", b.log); !errors.Is(err, runtime.ErrImage) {
		t.Errorf("got %v", err)
	}
}
