//go:build integration

package image

import (
	"os"
	"strings"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/rs/zerolog"
)

func connect(t *testing.T) *containerd.Client {
	t.Helper()
	c, err := containerd.New(os.Getenv("ADDR"), containerd.WithDefaultNamespace("image-test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestEnsure(t *testing.T) {
	c := connect(t)
	log := zerolog.New(zerolog.NewTestWriter(t))
	for range 3 {
		t0 := time.Now()
		r, err := Ensure(t.Context(), c, "", log)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%v %+v", time.Since(t0), r)
	}
}

func TestImport(t *testing.T) {
	c := connect(t)
	log := zerolog.New(zerolog.NewTestWriter(t))
	for _, f := range strings.Fields(os.Getenv("FILES")) {
		t0 := time.Now()
		refs, err := Import(t.Context(), c, f, "", log)
		t.Log(time.Since(t0), refs, err)
		if err == nil {
			t.Log(Ensure(t.Context(), c, refs[0], log))
		}
	}
	t.Log(Ensure(t.Context(), c, "foo/bar", log))
	t.Log(Ensure(t.Context(), c, "Foo/bar", log))
	t.Log(List(t.Context(), c))
	t.Log(Pull(t.Context(), c, "localhost:1/foo", log))
}
