package host

import (
	"os/user"
	"path/filepath"
	"testing"
)

func TestDefaultStateDir(t *testing.T) {
	account, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, own, xdg, home, want string
	}{
		{"own", "/own/dir/", "/xdg", "/home/a", "/own/dir"},
		{"xdg", "", "/xdg", "/home/a", "/xdg/thawpool"},
		{"home", "", "", "/home/a", "/home/a/.local/state/thawpool"},
		{"relative ones do not count", "own", "xdg", "/home/a", "/home/a/.local/state/thawpool"},
		{"of the account", "", "", "", filepath.Join(account.HomeDir, ".local/state/thawpool")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("THAWPOOL_STATE_DIR", c.own)
			t.Setenv("XDG_STATE_HOME", c.xdg)
			t.Setenv("HOME", c.home)
			t.Setenv("XDG_RUNTIME_DIR", "/run/user/1") // must not matter
			if got, err := DefaultStateDir(); err != nil || got != c.want {
				t.Errorf("%s, %v; want %s", got, err, c.want)
			}
		})
	}
}
