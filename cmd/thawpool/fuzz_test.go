package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzConfigFile: whatever a config file holds, it is refused with a reason, or what is set can be used and is shown.
func FuzzConfigFile(f *testing.F) {
	for i, seed := range []string{
		"pool:\n  size: 4\ntimeout: 5s\n", "pool-size = 2\n[profiles.small]\nmemory = \"64m\"\n", `{"pool-size":"auto","allow":["fs.*"],"memory":null}`,
		"profiles: {a: {image: x}, a: 1}\n", "a: &a [*a]\n", "pool: {size: {size: 1}}\n", "1: 2\n", "- 1\n", "timeout: .inf\n",
	} {
		f.Add(uint8(i), []byte(seed))
	}
	clean := f.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		f.Setenv(name, clean)
	}
	extensions := []string{".yaml", ".toml", ".json"}
	f.Fuzz(func(t *testing.T, kind uint8, content []byte) {
		path := filepath.Join(t.TempDir(), "config"+extensions[int(kind)%len(extensions)])
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		a := newApp()
		_, tables, _, err := load(a.options, a.flags, path)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("refused without a reason")
			}
			return
		}
		a.cfg.ProfileTables = tables
		err = a.cfg.Validate()
		var field *FieldError
		if err != nil && !errors.As(err, &field) {
			t.Fatalf("%v names no option", err)
		}
	})
}
