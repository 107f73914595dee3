package host

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
)

// StateEnv is the variable that moves the state, images and sandboxes included, to another directory.
const StateEnv = "THAWPOOL_STATE_DIR"

// DefaultStateDir is where this process's user keeps its state when nothing else is configured. It depends on nothing that
// differs between a login, cron and a service, unless a profile sets StateEnv or XDG_STATE_HOME: then all three must.
func DefaultStateDir() (string, error) {
	if dir := os.Getenv(StateEnv); filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "thawpool"), nil
	}
	home := os.Getenv("HOME")
	if home == "" {
		u, err := user.Current()
		if err != nil {
			return "", fmt.Errorf("find a state directory (set HOME or %s): %w", StateEnv, err)
		}
		home = u.HomeDir
	}
	return filepath.Join(home, ".local", "state", "thawpool"), nil
}
