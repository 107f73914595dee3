package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

func open(t testing.TB, path string, change func(*Limits)) *Store {
	t.Helper()
	l := DefaultLimits()
	if change != nil {
		change(&l)
	}
	s, err := Open(path, l, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func save(t *testing.T, s *Store, key, value string) Info {
	t.Helper()
	info, err := s.Save(t.Context(), key, json.RawMessage(value), SaveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), nil)
	first := save(t, s, "notes", `{"id": 1915883588174806058, "x": "<&>", "f": 1.0, "big": 123456789012345678901234567890}`)
	m, err := s.Load(t.Context(), "notes")
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"id":1915883588174806058,"x":"<&>","f":1.0,"big":123456789012345678901234567890}`; string(m.Value) != want {
		t.Errorf("got %s, want %s", m.Value, want)
	}
	second, err := s.Save(t.Context(), "notes", json.RawMessage("2"), SaveOptions{Metadata: json.RawMessage(`{"tag": "a"}`)})
	if err != nil || second.Version <= first.Version || !second.Created.Equal(first.Created) || second.Size != 1 {
		t.Errorf("second save: %+v, %v", second, err)
	}
	third := save(t, s, "notes", "3")
	if string(third.Metadata) != `{"tag":"a"}` {
		t.Errorf("metadata is lost: %s", third.Metadata)
	}
	if got, err := s.Info(t.Context(), "notes"); err != nil || got.Version != third.Version {
		t.Errorf("info: %+v, %v", got, err)
	}
	if there, err := s.Delete(t.Context(), "notes"); !there || err != nil {
		t.Errorf("delete: %v, %v", there, err)
	}
	if there, err := s.Delete(t.Context(), "notes"); there || err != nil {
		t.Errorf("second delete: %v, %v", there, err)
	}
	if _, err := s.Load(t.Context(), "notes"); !errors.Is(err, ErrNotFound) {
		t.Errorf("load after delete: %v", err)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), nil)
	with := func(v int64) error {
		_, err := s.Save(t.Context(), "k", json.RawMessage("1"), SaveOptions{Version: &v})
		return err
	}
	if err := with(5); !errors.Is(err, ErrConflict) {
		t.Errorf("a version of a key that is not there: %v", err)
	}
	if err := with(0); err != nil {
		t.Errorf("new key: %v", err)
	}
	if err := with(0); !errors.Is(err, ErrConflict) {
		t.Errorf("new key that is there: %v", err)
	}
	stale := save(t, s, "k", "2").Version
	if _, err := s.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	save(t, s, "k", "3")
	if err := with(stale); !errors.Is(err, ErrConflict) {
		t.Errorf("a version from before the key was deleted: %v", err)
	}
}

// keys are texts that would hurt as file names.
var keys = []string{
	"", ".", "..", "../../etc/passwd", "/etc/shadow", "a/b", `a\b`, "a\x00b", "A", "a", "CON", "con", ".lock", ".new",
	"m-a", "x.json", strings.Repeat("long", 100), strings.Repeat("ü", 200), "日本語", "e\u0301", "\u00e9", "a b\n\t", "\u202e", "~", "*?", "$(x)",
}

func TestAnyKeyIsSafe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "state"), nil)
	for i, key := range keys {
		save(t, s, key, fmt.Sprint(i))
	}
	for i, key := range keys {
		if m, err := s.Load(t.Context(), key); err != nil || string(m.Value) != fmt.Sprint(i) || m.Key != key {
			t.Errorf("%q: %s, %v", key, m.Value, err)
		}
	}
	infos, err := s.List(t.Context())
	if err != nil || len(infos) != len(keys) {
		t.Errorf("%d infos, %v", len(infos), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("something beside the store: %v, %v", entries, err)
	}
	for _, bad := range []string{"\xff", strings.Repeat("x", 513)} {
		if _, err := s.Save(t.Context(), bad, json.RawMessage("1"), SaveOptions{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), func(l *Limits) { l.Value, l.Metadata, l.Keys, l.Total = 100, 20, 3, 900 })
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	try := func(key string, value json.RawMessage, metadata string) error {
		_, err := s.Save(t.Context(), key, value, SaveOptions{Metadata: json.RawMessage(metadata)})
		return err
	}
	for _, tc := range []struct {
		name     string
		key      string
		value    json.RawMessage
		metadata string
		want     error
	}{
		{"at the limit", "a", text(100), "", nil},
		{"value too large", "a", text(101), "", ErrQuota},
		{"white space does not count", "a", json.RawMessage(strings.Repeat(" ", 200) + "1"), "", nil},
		{"metadata too large", "a", text(5), `{"x":"` + strings.Repeat("y", 20) + `"}`, ErrQuota},
		{"metadata no object", "a", text(5), `[]`, ErrInvalid},
		{"not JSON", "a", json.RawMessage("NaN"), "", ErrInvalid},
		{"nothing", "a", nil, "", ErrInvalid},
		{"second key", "b", text(5), "", nil},
		{"third key", "c", text(5), "", nil},
		{"one key too many", "d", text(5), "", ErrQuota},
		{"replacing is no new key", "c", text(6), "", nil},
	} {
		if err := try(tc.key, tc.value, tc.metadata); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
	full := open(t, t.TempDir(), func(l *Limits) { l.Total = 1000 })
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		_, err = full.Save(t.Context(), fmt.Sprint(i), text(300), SaveOptions{})
	}
	if !errors.Is(err, ErrQuota) || !strings.Contains(err.Error(), "1000") {
		t.Errorf("total: %v", err)
	}
	if _, err := Open(t.TempDir(), Limits{}, zerolog.Nop()); !errors.Is(err, ErrInvalid) {
		t.Errorf("limits that are not set: %v", err)
	}
}

func TestDamagedFilesAreSetAside(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		damage func(t *testing.T, path string)
	}{
		{"truncated", func(t *testing.T, path string) { check(t, os.Truncate(path, 40)) }},
		{"empty", func(t *testing.T, path string) { check(t, os.Truncate(path, 0)) }},
		{"garbage", func(t *testing.T, path string) { check(t, os.WriteFile(path, []byte("\x00\xff{"), 0o600)) }},
		{"another key's", func(t *testing.T, path string) {
			check(t, os.WriteFile(path, []byte(`{"key":"other","version":1,"value":1}`), 0o600))
		}},
		{"huge", func(t *testing.T, path string) { check(t, os.Truncate(path, 100<<20)) }},
		{"symlink", func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, os.Symlink("/etc/passwd", path))
		}},
		{"dangling symlink", func(t *testing.T, path string) {
			check(t, os.Remove(path))
			check(t, os.Symlink(path+".elsewhere", path))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := open(t, dir, nil)
			save(t, s, "good", "1")
			save(t, s, "bad", "2")
			path := filepath.Join(dir, "memory", fileName("bad"))
			tc.damage(t, path)
			if infos, err := s.List(t.Context()); err != nil || len(infos) == 0 || infos[len(infos)-1].Key != "good" {
				t.Errorf("list: %v, %v", infos, err)
			}
			if _, err := s.Load(t.Context(), "bad"); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotFound) {
				t.Errorf("load: %v", err)
			}
			if _, err := os.Lstat(path + ".damaged"); err != nil {
				t.Errorf("it is not set aside: %v", err)
			}
			save(t, s, "bad", "3")
			if m, err := s.Load(t.Context(), "bad"); err != nil || string(m.Value) != "3" {
				t.Errorf("after saving again: %s, %v", m.Value, err)
			}
			if _, err := os.Lstat(path + ".elsewhere"); err == nil {
				t.Error("the symlink was written through")
			}
			if m, err := s.Load(t.Context(), "good"); err != nil || string(m.Value) != "1" {
				t.Errorf("another key: %s, %v", m.Value, err)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSaveReplacesSymlink: a save is never written through a link that stands where its file belongs.
func TestSaveReplacesSymlink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, nil)
	target := filepath.Join(dir, "target")
	check(t, os.WriteFile(target, []byte("mine"), 0o600))
	check(t, os.Symlink(target, filepath.Join(dir, "memory", fileName("k"))))
	_, err := s.Save(t.Context(), "k", json.RawMessage("1"), SaveOptions{})
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
	save(t, s, "k", "2")
	if raw, err := os.ReadFile(target); err != nil || string(raw) != "mine" {
		t.Errorf("target: %q, %v", raw, err)
	}
}

func TestParallelSavesOfOneProcess(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), nil)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := s.Save(t.Context(), fmt.Sprint("key", i), json.RawMessage("1"), SaveOptions{}); err != nil {
				t.Error(err)
			}
			increment(t.Context(), t, s, 5)
		})
	}
	wg.Wait()
	if infos, err := s.List(t.Context()); err != nil || len(infos) != 21 {
		t.Errorf("%d keys, %v", len(infos), err)
	}
	if m, err := s.Load(t.Context(), "counter"); err != nil || string(m.Value) != "100" {
		t.Errorf("counter: %s, %v", m.Value, err)
	}
}

// increment adds one to the counter n times, as an update function does: load, compute, save with the version.
func increment(ctx context.Context, t testing.TB, s *Store, n int) {
	for done := 0; done < n; {
		var value int
		m, err := s.Load(ctx, "counter")
		if err == nil {
			err = json.Unmarshal(m.Value, &value)
		} else if errors.Is(err, ErrNotFound) {
			err = nil
		}
		if err != nil {
			t.Error(err)
			return
		}
		_, err = s.Save(ctx, "counter", json.RawMessage(fmt.Sprint(value+1)), SaveOptions{Version: &m.Version})
		switch {
		case err == nil:
			done++
		case !errors.Is(err, ErrConflict):
			t.Error(err)
			return
		}
	}
}

func TestCancelledWhileLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	ctx, cancel := context.WithCancel(t.Context())
	err := other.memories.locked(t.Context(), func() error {
		cancel()
		_, err := s.Save(ctx, "k", json.RawMessage("1"), SaveOptions{})
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("behind another process: %v", err)
	}
	err = s.memories.locked(t.Context(), func() error {
		_, err := s.Delete(ctx, "k")
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("behind another goroutine: %v", err)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, func(l *Limits) { l.Tools, l.Code = 2, 100 })
	tool := Tool{Name: "hello", Description: "says hello", Code: "def hello():\n    return '<&>'\n"}
	check(t, s.SaveTool(t.Context(), tool))
	got, err := s.LoadTool(t.Context(), "hello")
	if err != nil || got.Code != tool.Code || got.Description != tool.Description {
		t.Errorf("%+v, %v", got, err)
	}
	check(t, s.SaveTool(t.Context(), Tool{Name: "a_b", Code: "x = 1"}))
	if err := s.SaveTool(t.Context(), Tool{Name: "third", Code: "x"}); !errors.Is(err, ErrQuota) {
		t.Errorf("too many: %v", err)
	}
	if err := s.SaveTool(t.Context(), Tool{Name: "hello", Code: strings.Repeat("x", 101)}); !errors.Is(err, ErrQuota) {
		t.Errorf("too large: %v", err)
	}
	for _, bad := range []string{"", "class", "a-b", "../x", "a/b", "1a", "ü", "a.b", strings.Repeat("x", 65), "x\n"} {
		if err := s.SaveTool(t.Context(), Tool{Name: bad, Code: "x"}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if names, err := s.ToolNames(); err != nil || !slices.Equal(names, []string{"a_b", "hello"}) {
		t.Errorf("%v, %v", names, err)
	}
	check(t, os.WriteFile(filepath.Join(dir, "tools", "hello.json"), []byte("{"), 0o600))
	if list, err := s.Tools(t.Context()); err != nil || len(list) != 1 || list[0].Name != "a_b" || list[0].Code != "" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := s.LoadTool(t.Context(), "hello"); !errors.Is(err, ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
	check(t, s.SaveTool(t.Context(), tool))
	if there, err := s.DeleteTool(t.Context(), "hello"); !there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	if _, err := s.LoadTool(t.Context(), "hello"); !errors.Is(err, ErrNotFound) {
		t.Errorf("gone: %v", err)
	}
}

func FuzzKeys(f *testing.F) {
	for i, key := range keys {
		f.Add(key, keys[(i+1)%len(keys)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, key := range []string{a, b} {
			name := fileName(key)
			if name != filepath.Base(name) || len(name) > 128 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
				t.Fatalf("%q: %q is no safe file name", key, name)
			}
		}
		if a != b && strings.EqualFold(fileName(a), fileName(b)) {
			t.Fatalf("%q and %q share a file", a, b)
		}
	})
}
