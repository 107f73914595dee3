package ctrd

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
)

// limitNames are the lines of /proc/PID/limits that specs care about.
var limitNames = map[string]string{
	"Max core file size":  "RLIMIT_CORE",
	"Max open files":      "RLIMIT_NOFILE",
	"Max locked memory":   "RLIMIT_MEMLOCK",
	"Max msgqueue size":   "RLIMIT_MSGQUEUE",
	"Max pending signals": "RLIMIT_SIGPENDING",
}

// hostFacts reads what a spec must know of the daemon that will run it.
func hostFacts(b *Backend) (runtime.SpecHost, error) {
	f := runtime.SpecHost{
		CgroupV2: b.Cgroup == host.V2,
		// The parent exists before the first sandbox, and has what its children will have.
		SwapAccounting: host.OpenGroup(b.Cgroup, path.Dir(b.HostPath)).SwapAccounting(),
	}
	dir := path.Join("/proc", strconv.Itoa(b.PID))
	data, err := os.ReadFile(path.Join(dir, "limits"))
	if err != nil {
		return f, fmt.Errorf("%w: read the daemon's limits: %w", runtime.ErrUnavailable, err)
	}
	f.HardLimits = parseLimits(string(data))
	score, err := os.ReadFile(path.Join(dir, "oom_score_adj"))
	if err != nil {
		return f, fmt.Errorf("%w: read the daemon's oom score: %w", runtime.ErrUnavailable, err)
	}
	if f.OOMScoreAdj, err = strconv.Atoi(strings.TrimSpace(string(score))); err != nil {
		return f, fmt.Errorf("read the daemon's oom score: %w", err)
	}
	return f, nil
}

// parseLimits reads the hard limits from a table whose columns are names with blanks, soft, hard, and unit.
func parseLimits(table string) map[string]uint64 {
	limits := map[string]uint64{}
	for line := range strings.Lines(table) {
		for prefix, name := range limitNames {
			rest, ok := strings.CutPrefix(line, prefix)
			fields := strings.Fields(rest)
			if !ok || len(fields) < 2 {
				continue
			}
			if fields[1] == "unlimited" {
				limits[name] = ^uint64(0)
			} else if n, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
				limits[name] = n
			}
		}
	}
	return limits
}
