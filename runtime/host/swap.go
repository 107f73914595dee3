package host

import (
	"os"
	"path/filepath"
)

// SwapAccounting tells whether the memory controller can limit swap in the groups below this one, which must exist.
func (g Group) SwapAccounting() bool {
	file := "memory.memsw.limit_in_bytes"
	if g.version == V2 {
		file = "memory.swap.max"
	}
	_, err := os.Stat(filepath.Join(g.dir("memory"), file))
	return err == nil
}

// Version is the cgroup version that the group is of.
func (g Group) Version() Version { return g.version }
