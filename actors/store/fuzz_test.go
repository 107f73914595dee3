package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzFile: whatever stands in a memory's file, it is the memory or it is damaged; the key can be saved and loaded again,
// and its neighbour is whole.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		`{"key":"k","version":1,"size":1,"created":"2026-01-01T00:00:00Z","updated":"2026-01-01T00:00:00Z","value":1}`,
		`{"key":"k","version":9223372036854775807,"value":null,"metadata":[]}`, `{"key":"k"}`, `{"key":"other","version":3,"value":1}`,
		`{"key":"k","version":-1,"value":1}`, `[`, ``, "\x00",
	} {
		f.Add([]byte(seed))
	}
	dir := f.TempDir()
	s := open(f, dir, nil)
	f.Fuzz(func(t *testing.T, content []byte) {
		save(t, s, "neighbour", `"whole"`)
		path := filepath.Join(dir, "memory", fileName("k"))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := s.Load(t.Context(), "k")
		switch {
		case err == nil && (m.Key != "k" || m.Version == 0 || !json.Valid(m.Value)):
			t.Fatalf("loaded %+v", m)
		case err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotFound):
			t.Fatal(err)
		}
		if _, err := s.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		saved, err := s.Save(t.Context(), "k", json.RawMessage("2"), SaveOptions{})
		if errors.Is(err, ErrDamaged) {
			saved, err = s.Save(t.Context(), "k", json.RawMessage("2"), SaveOptions{})
		}
		if err != nil || saved.Version <= m.Version {
			t.Fatalf("saved %+v over version %d, %v", saved, m.Version, err)
		}
		for key, want := range map[string]string{"k": "2", "neighbour": `"whole"`} {
			if m, err := s.Load(t.Context(), key); err != nil || string(m.Value) != want {
				t.Fatalf("%s is %s, %v", key, m.Value, err)
			}
		}
	})
}
