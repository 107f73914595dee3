package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime/host"
)

// DefaultIdle is how long an unused daemon stays: long enough for the next call of a person at work.
const DefaultIdle = 300 * time.Second

// Config says where the private daemon lives. The zero value of each field means its default.
type Config struct {
	StateDir string        // default $THAWPOOL_STATE_DIR, $XDG_STATE_HOME/thawpool or ~/.local/state/thawpool
	BinDir   string        // has rootlesskit, containerd and the shims; default: the directory of this program
	Idle     time.Duration // the keeper stops after so long without a user; default DefaultIdle
	// Command starts the keeper: a program and its first arguments, to which Args are added. Default: this program's
	// "daemon" command.
	Command []string
	Log     zerolog.Logger
}

// Args are the flags that the keeper's command line takes, with this configuration's values.
func (c Config) Args() []string {
	return []string{"--state-dir=" + c.StateDir, "--bin-dir=" + c.BinDir, "--idle=" + c.Idle.String()}
}

// complete fills in the defaults.
func (c Config) complete() (Config, error) {
	var err error
	if c.StateDir == "" {
		if c.StateDir, err = host.DefaultStateDir(); err != nil {
			return c, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return c, fmt.Errorf("find this program: %w", err)
	}
	if c.BinDir == "" {
		c.BinDir = filepath.Dir(self)
	}
	if len(c.Command) == 0 {
		c.Command = []string{self, "daemon"}
	}
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	switch {
	case !filepath.IsAbs(c.StateDir):
		err = fmt.Errorf("state directory %q is not absolute", c.StateDir)
	case !filepath.IsAbs(c.BinDir):
		err = fmt.Errorf("directory of programs %q is not absolute", c.BinDir)
	case c.Idle < 0:
		err = errors.New("the daemon's idle time is negative")
	}
	return c, err
}
