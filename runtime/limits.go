package runtime

// Limits bound one sandbox. They are the kernel's to keep: nothing in them relies on the code inside.
type Limits struct {
	Memory    int64 // bytes, no swap beyond it; tmpfs content counts
	PIDs      int64 // processes and threads at once
	Tmp       int64 // bytes, size of each of the tmpfs on /tmp and /workspace
	Shm       int64 // bytes, size of the tmpfs on /dev/shm
	OpenFiles int64 // soft and hard RLIMIT_NOFILE; never raised above what the host allows
}

// DefaultLimits are the limits of the reference bridge where it has them (memory 512 MiB, 128 pids).
func DefaultLimits() Limits {
	return Limits{Memory: 512 << 20, PIDs: 128, Tmp: 64 << 20, Shm: 32 << 20, OpenFiles: 1024}
}
