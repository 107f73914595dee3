package runtime

import (
	"path"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// GuestID is the user and group that sandboxed code runs as: nobody, far away from the ids that own files.
const GuestID = 65534

// Workspace is the directory that sandboxed code starts in.
const Workspace = "/workspace"

// Hostname is what every sandbox calls itself: nothing in it tells one from another, or the host.
const Hostname = "sandbox"

// SpecConfig is all that an OCI spec of a sandbox depends on.
type SpecConfig struct {
	Args        []string          // argv of the runner
	Env         []string          // KEY=value, all of it: nothing of the host's is added
	CgroupsPath string            // as the daemon's runtime sees it
	Limits      Limits            // every field above zero
	Annotations map[string]string // for containerd's shims, for example their grouping
	Host        SpecHost
}

// SpecHost is what a spec must know of the machine and the daemon that will run it.
type SpecHost struct {
	CgroupV2       bool
	SwapAccounting bool              // the memory controller can limit swap
	HardLimits     map[string]uint64 // hard rlimits of the daemon by their OCI names; a missing one is not set
	OOMScoreAdj    int               // of the daemon: a lower score is not permitted to its children
}

// oomScoreAdj makes the kernel prefer sandboxes to anything else of the user when the whole machine runs out of memory.
const oomScoreAdj = 500

// NewSpec is the OCI spec of one sandbox: a read-only root at rootfs in the bundle, namespaces of its own, no
// capability, no privilege to gain, a narrow seccomp filter, and limits that the kernel keeps. It is a pure function.
func NewSpec(c SpecConfig) *specs.Spec {
	score := max(oomScoreAdj, c.Host.OOMScoreAdj)
	return &specs.Spec{
		Version:    specs.Version,
		Hostname:   Hostname,
		Domainname: "(none)", // the kernel's own default: the UTS namespace is a copy of the daemon's
		Root:       &specs.Root{Path: "rootfs", Readonly: true},
		Process: &specs.Process{
			Args:            c.Args,
			Env:             c.Env,
			Cwd:             Workspace,
			User:            specs.User{UID: GuestID, GID: GuestID},
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			Rlimits:         rlimits(c.Limits, c.Host.HardLimits),
			OOMScoreAdj:     &score,
		},
		Mounts:      mounts(c.Limits),
		Annotations: c.Annotations,
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.CgroupNamespace},
			},
			CgroupsPath:   path.Clean(c.CgroupsPath),
			Resources:     resources(c.Limits, c.Host),
			Seccomp:       seccompProfile(),
			MaskedPaths:   maskedPaths,
			ReadonlyPaths: readOnlyPaths,
		},
	}
}

// readOnlyPaths change the kernel's settings or its devices.
var readOnlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}

// maskedPaths tell of the host or its hardware. The OCI defaults, and what else no Python needs. Those that a kernel
// does not have are skipped by the runtime.
var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/bootconfig", "/proc/buddyinfo", "/proc/cmdline", "/proc/config.gz",
	"/proc/consoles", "/proc/crypto", "/proc/diskstats", "/proc/dma", "/proc/driver", "/proc/execdomains",
	"/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys",
	"/proc/kmsg", "/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/locks",
	"/proc/mdstat", "/proc/misc", "/proc/modules", "/proc/mtrr", "/proc/pagetypeinfo", "/proc/partitions", "/proc/pressure",
	"/proc/sched_debug", "/proc/schedstat", "/proc/scsi", "/proc/slabinfo", "/proc/softirqs", "/proc/swaps",
	"/proc/timer_list", "/proc/timer_stats", "/proc/tty", "/proc/vmallocinfo", "/proc/zoneinfo",
}

// Paths are those of /proc that a sandbox may only read, and that show nothing, where the kernel has them.
type Paths struct{ ReadOnly, Masked []string }

// HiddenPaths are every sandbox's.
func HiddenPaths() Paths {
	return Paths{ReadOnly: slices.Clone(readOnlyPaths), Masked: slices.Clone(maskedPaths)}
}

// mounts are the file systems besides the root. There is no /sys, and nothing of the host.
func mounts(l Limits) []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "nodev", "noexec"}},
		// Read-only once the runtime has put its few nodes there (null zero full random urandom tty).
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "ro", "mode=755", "size=64k"}},
		scratch("/dev/shm", l.Shm),
		scratch("/tmp", l.Tmp),
		scratch(Workspace, l.Tmp),
	}
}

// scratch is a place to write to that ends with the sandbox. Its content counts as the sandbox's memory; the inodes are
// bounded too, since empty files take kernel memory only.
func scratch(dir string, size int64) specs.Mount {
	return specs.Mount{
		Destination: dir, Type: "tmpfs", Source: "tmpfs",
		Options: []string{"nosuid", "nodev", "noexec", "mode=1777", sizeOption(size), "nr_inodes=65536"},
	}
}

// bootShares is the processor's share (cpu.shares, 1024 is the kernel's default; runtimes convert it for cgroup v2) of a
// sandbox that boots. It is a tenth of what one gets once it is frozen, RunWeight, so that refilling the pool after a burst
// does not slow the burst's own runs.
const bootShares = uint64(102)

// RunWeight is for host.Group.SetCPUWeight, at the end of a boot.
const RunWeight = 100

func resources(l Limits, h SpecHost) *specs.LinuxResources {
	pids, memory, shares := l.PIDs, l.Memory, bootShares
	r := &specs.LinuxResources{
		CPU:     &specs.LinuxCPU{Shares: &shares},
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}, // the runtime adds its default nodes
		Memory:  &specs.LinuxMemory{Limit: &memory},
		Pids:    &specs.LinuxPids{Limit: &pids},
	}
	if h.SwapAccounting {
		r.Memory.Swap = &memory // memory and swap together, so no swap at all
	}
	if h.CgroupV2 {
		// One process of a run does not outlive another that the kernel killed: half a sandbox is of no use.
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return r
}

// rlimits only lowers: a process without CAP_SYS_RESOURCE cannot raise a hard limit. RLIMIT_NPROC is left alone, for it
// would count the processes of all sandboxes together; the pids controller does that job.
func rlimits(l Limits, hard map[string]uint64) []specs.POSIXRlimit {
	wanted := []struct {
		name  string
		value uint64
	}{
		// Not 0: a host that pipes cores to a handler, as systemd does, would run it, as root, for every crash in a sandbox.
		// At 1 byte the kernel writes no core and starts no handler (fs/coredump.c); the filter keeps it there.
		{"RLIMIT_CORE", 1},
		{"RLIMIT_NOFILE", uint64(l.OpenFiles)},
		{"RLIMIT_MEMLOCK", 64 << 10},
		{"RLIMIT_MSGQUEUE", 0},
	}
	var out []specs.POSIXRlimit
	for _, w := range wanted {
		most, known := hard[w.name]
		if !known {
			continue
		}
		v := min(w.value, most)
		out = append(out, specs.POSIXRlimit{Type: w.name, Hard: v, Soft: v})
	}
	return out
}
