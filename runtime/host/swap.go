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

// SwapLimit is how many bytes of swap the group's processes may use, or Unlimited where the kernel does not count swap.
func (g Group) SwapLimit() (int64, error) {
	if err := g.check(false); err != nil || !g.SwapAccounting() {
		return Unlimited, err
	}
	if g.version == V2 {
		return readLimit(filepath.Join(g.dir("memory"), "memory.swap.max"))
	}
	both, err := readLimit(filepath.Join(g.dir("memory"), "memory.memsw.limit_in_bytes"))
	if err != nil || both == Unlimited {
		return Unlimited, err
	}
	memory, err := g.MemoryLimit()
	return both - memory, err
}
