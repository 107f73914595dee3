package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestReplaceRemovesWhatKilledWritersLeft(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{
		".list.json123": old, ".list.json456": time.Now(), ".other.json789": old, "list.json": old, "list.json.damaged": old,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(tmp)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "list.json")
	if err := Replace(path, []byte("whole")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "whole" {
		t.Errorf("it has %q, %v", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{".list.json456", ".other.json789", "list.json", "list.json.damaged"}; !slices.Equal(names, want) {
		t.Errorf("there are %q, want %q", names, want)
	}
	if after, err := os.Stat(tmp); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Error("something was written in TMPDIR")
	}
}
