package image

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/rs/zerolog"
)

// TestWorkIsNotLockedForEver: a process that was stopped while it makes an image keeps no other from making its own.
func TestWorkIsNotLockedForEver(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := workDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "image.lock")
	free := func() bool {
		other := flock.New(path)
		defer func() { _ = other.Close() }()
		got, err := other.TryLock()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	held := lockWork(t.Context(), zerolog.Nop(), time.Minute)
	if free() {
		t.Error("work is not locked")
	}
	lockWork(t.Context(), zerolog.Nop(), time.Millisecond)()
	if free() {
		t.Error("who did not wait has unlocked the work of another one")
	}
	held()
	if !free() {
		t.Error("work is still locked")
	}
}
