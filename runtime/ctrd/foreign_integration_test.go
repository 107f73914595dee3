//go:build integration

package ctrd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
)

// A runtime that is not installed is named, with what to do, and nothing of the attempt is left.
func TestRuntimeThatIsNotThere(t *testing.T) {
	e := envOf(t)
	rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = "io.containerd.absent.v1" })
	if err := rt.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	base, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	_, err = rt.Boot(t.Context(), "absent")
	var hint *runtime.HintError
	if !errors.Is(err, runtime.ErrUnsupported) || !errors.As(err, &hint) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"io.containerd.absent.v1", "containerd-shim-absent-v1", "PATH", "--runtime"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	e.RequireNone(t, base)
}

// A runtime that never answers is given up and named, and nothing of the attempt is left.
func TestRuntimeThatHangs(t *testing.T) {
	e := envOf(t)
	program := filepath.Join(t.TempDir(), "containerd-shim-hangs-v1")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime, c.BootTimeout = program, 3*time.Second })
	if err := rt.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	base, err := e.Count()
	if err != nil {
		t.Fatal(err)
	}
	_, err = rt.Boot(t.Context(), "hangs")
	var hint *runtime.HintError
	if !errors.As(err, &hint) || !strings.Contains(err.Error(), program) {
		t.Errorf("got %v", err)
	}
	e.RequireNone(t, base)
}
