package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/thawpool/thawpool/runtime"
)

// thawEvery is after how many looks at a freeze that does not settle the group is thawed for a moment. The v1 freezer
// can hang for ever in FREEZING when a process is caught between a fork or vfork and its next stop; libcontainer's
// freezer found the same way out.
const thawEvery = 50

func (g Group) usageV1() (runtime.Usage, error) {
	cpu, err := readInt(filepath.Join(g.dir("cpuacct"), "cpuacct.usage"))
	if err != nil {
		return runtime.Usage{}, fmt.Errorf("read cpu use: %w", err)
	}
	peak, err := readInt(filepath.Join(g.dir("memory"), "memory.max_usage_in_bytes"))
	if err != nil {
		return runtime.Usage{}, fmt.Errorf("read memory use: %w", err)
	}
	kills, err := readKeyed(filepath.Join(g.dir("memory"), "memory.oom_control"), "oom_kill")
	if err != nil {
		return runtime.Usage{}, fmt.Errorf("read oom kills: %w", err)
	}
	return runtime.Usage{CPU: time.Duration(cpu), MemoryPeak: peak, OOMKills: kills}, nil
}

// freezerState is THAWED, FREEZING or FROZEN.
func (g Group) freezerState() (string, error) {
	data, err := os.ReadFile(filepath.Join(g.dir("freezer"), "freezer.state"))
	return strings.TrimSpace(string(data)), err
}

func (g Group) frozenV1() (bool, error) {
	state, err := g.freezerState()
	if err != nil {
		return false, fmt.Errorf("read freezer state: %w", err)
	}
	return state == "FROZEN", nil
}

func (g Group) setFrozenV1(frozen bool) error {
	file := filepath.Join(g.dir("freezer"), "freezer.state")
	if !frozen {
		return writeFile(file, "THAWED")
	}
	ctx, cancel := context.WithTimeout(context.Background(), freezeWait)
	defer cancel()
	err := g.settleFreeze(ctx, file)
	if err != nil {
		err = errors.Join(err, writeFile(file, "THAWED")) // never leave a group half frozen
	}
	return err
}

// settleFreeze writes FROZEN until the kernel says so. Each write also catches what was forked since the last one.
func (g Group) settleFreeze(ctx context.Context, file string) error {
	for try, wait := 1, 10*time.Microsecond; ; try, wait = try+1, min(2*wait, time.Millisecond) {
		if err := writeFile(file, "FROZEN"); err != nil {
			return err
		}
		state, err := g.freezerState()
		if err != nil || state == "FROZEN" {
			return err
		}
		if try%thawEvery == 0 {
			if err := writeFile(file, "THAWED"); err != nil {
				return err
			}
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("still %s after %s: %w", state, freezeWait, err)
		}
	}
}
