// Package store keeps memories and saved tools between runs: JSON files, one a key, in a directory that only the host
// writes. Sandboxed code reaches it by messages alone and never names a path.
//
// Every change is one atomic replacement under a lock that all thawpool processes share, so a reader sees the old or the
// new value and never less, also when a writer is killed. A damaged file is set aside and told, and harms no other key.
//
// It knows nothing of the rest.
package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
)

// The kinds of failure that callers tell apart.
var (
	// ErrNotFound: there is no such key or tool.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the value has changed since the version that was given.
	ErrConflict = errors.New("version conflict")
	// ErrQuota: keeping it would go beyond a limit; the text says which.
	ErrQuota = errors.New("quota exceeded")
	// ErrInvalid: it cannot be kept as it is; the text says why.
	ErrInvalid = errors.New("not valid")
	// ErrDamaged: what was kept cannot be read any more and was set aside.
	ErrDamaged = errors.New("damaged")
)

// Limits bound what is kept. Sizes are bytes, of compact JSON for values.
type Limits struct {
	Key         int   // a key's text
	Value       int   // one value
	Metadata    int   // one key's metadata
	Keys        int   // how many keys
	Total       int64 // all memory files together
	Tools       int   // how many saved tools
	Code        int   // one tool's source
	Description int   // one tool's description
}

// DefaultLimits are ample for notes and intermediate results, and small beside a disk.
func DefaultLimits() Limits {
	return Limits{
		Key: 512, Value: 1 << 20, Metadata: 16 << 10, Keys: 1000, Total: 64 << 20,
		Tools: 200, Code: 256 << 10, Description: 2 << 10,
	}
}

// Store is safe for concurrent use by any number of goroutines and processes.
type Store struct {
	limits   Limits
	memories *dir
	tools    *dir
}

// Open makes the directories below path, mode 0700, and clears what a killed writer left.
func Open(path string, limits Limits, log zerolog.Logger) (*Store, error) {
	if limits.Key <= 0 || limits.Value <= 0 || limits.Metadata <= 0 || limits.Keys <= 0 || limits.Total <= 0 ||
		limits.Tools <= 0 || limits.Code <= 0 || limits.Description <= 0 {
		return nil, fmt.Errorf("open store: %w: every limit must be more than zero", ErrInvalid)
	}
	s := &Store{limits: limits}
	for name, d := range map[string]**dir{"memory": &s.memories, "tools": &s.tools} {
		opened, err := openDir(filepath.Join(path, name), log)
		if err != nil {
			return nil, fmt.Errorf("open store: %w", err)
		}
		*d = opened
	}
	return s, nil
}

func openDir(path string, log zerolog.Logger) (*dir, error) {
	d := &dir{path: path, log: log, turn: make(chan struct{}, 1)}
	if err := os.MkdirAll(d.temp(), 0o700); err != nil {
		return nil, err
	}
	for _, p := range []string{path, d.temp()} {
		info, err := os.Lstat(p)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a directory", p)
		}
	}
	return d, d.sweep()
}
