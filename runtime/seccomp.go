package runtime

import (
	goruntime "runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// dropped are the system calls of containerd's default profile that no Python needs and that have been ways out of
// sandboxes, reach other processes, or use up what all sandboxes share. What containerd's profile leaves out (bpf,
// userfaultfd, io_uring, keyrings, kexec, module loading, perf_event_open, setns, unshare, the mount family …) is in the
// list all the same: a newer profile must not let it in.
var dropped = []string{
	// Other processes' memory and descriptors.
	"ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd",
	// Namespaces and mounts, old and new calls.
	"unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick",
	"open_tree", "open_tree_attr", "move_mount", "mount_setattr", "listmount", "statmount", "listns",
	"name_to_handle_at", "open_by_handle_at", "quotactl", "quotactl_fd", "swapon", "swapoff", "lookup_dcookie",
	"fanotify_init", "fanotify_mark", "sethostname", "setdomainname",
	// Keys, programs and tracing in the kernel.
	"add_key", "request_key", "keyctl", "bpf", "perf_event_open", "uretprobe", "uprobe", "userfaultfd", "seccomp",
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
	"lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules",
	// The machine itself.
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "syslog", "acct", "iopl",
	"ioperm", "modify_ldt", "vhangup", "settimeofday", "stime", "clock_settime", "clock_settime64", "adjtimex",
	"clock_adjtime", "clock_adjtime64", "nfsservctl", "s390_pci_mmio_read", "s390_pci_mmio_write", "s390_runtime_instr",
	// Contexts of the old asynchronous I/O are counted for the whole machine (fs.aio-max-nr).
	"io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents", "io_pgetevents_time64",
	// What others have in the page cache.
	"mincore", "cachestat", "vmsplice", "remap_file_pages", "memfd_secret", "map_shadow_stack",
	"get_mempolicy", "set_mempolicy", "set_mempolicy_home_node", "mbind", "migrate_pages", "move_pages",
	// Answered by rules of their own below.
	"socket", "socketcall", "personality", "sync", "syncfs", "setrlimit", "prlimit64",
}

// sockets are the address families that a sandbox may use inside its own empty network. Netlink, packets, vsock and the
// rest are kernel code that nothing in a sandbox needs.
var sockets = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

// queryPersonality as the argument of personality(2) only reads it; 0 is what it is already.
const queryPersonality = 0xffffffff

// arches are the names of the native architectures. A call by any other ABI (32-bit, x32) ends the process.
var arches = map[string]specs.Arch{
	"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64, "riscv64": specs.ArchRISCV64, "s390x": specs.ArchS390X,
	"ppc64le": specs.ArchPPC64LE, "loong64": specs.ArchLOONGARCH64,
}

// seccompProfile is the filter of every sandbox: containerd's default for a process without capabilities, less dropped.
var seccompProfile = sync.OnceValue(func() *specs.LinuxSeccomp {
	p := seccomp.DefaultProfile(&specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{}}})
	p.Architectures = nil
	if arch, ok := arches[goruntime.GOARCH]; ok {
		p.Architectures = []specs.Arch{arch}
	}
	var kept []specs.LinuxSyscall
	for _, rule := range p.Syscalls {
		rule.Names = slices.DeleteFunc(slices.Clone(rule.Names), func(name string) bool { return slices.Contains(dropped, name) })
		if len(rule.Names) > 0 {
			kept = append(kept, rule)
		}
	}
	for _, family := range sockets {
		kept = append(kept, allowIf("socket", family))
	}
	kept = append(kept, allowIf("personality", 0), allowIf("personality", queryPersonality))
	kept = append(kept, limitRules()...)
	// sync(2) writes out the file systems of the whole machine. It cannot fail, so it succeeds without doing anything:
	// a sandbox has only tmpfs.
	done := uint(0)
	kept = append(kept, specs.LinuxSyscall{Names: []string{"sync", "syncfs"}, Action: specs.ActErrno, ErrnoRet: &done})
	p.Syscalls = kept
	return p
})

// limitRules let a process set its own limits and read those of others, but that of cores stays: see rlimits. The runner's
// limits are not the code's to lower.
func limitRules() []specs.LinuxSyscall {
	notCore := func(index uint) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: unix.RLIMIT_CORE, Op: specs.OpNotEqual}
	}
	return []specs.LinuxSyscall{
		allowArgs("setrlimit", notCore(0)),
		allowArgs("prlimit64", specs.LinuxSeccompArg{Index: 0, Value: 0, Op: specs.OpEqualTo}, notCore(1)),
		allowArgs("prlimit64", specs.LinuxSeccompArg{Index: 2, Value: 0, Op: specs.OpEqualTo}),
	}
}

// allowIf allows a call whose first argument has the value.
func allowIf(name string, value uint64) specs.LinuxSyscall {
	return allowArgs(name, specs.LinuxSeccompArg{Index: 0, Value: value, Op: specs.OpEqualTo})
}

// allowArgs allows a call whose arguments are all as given. Several rules of one call are alternatives.
func allowArgs(name string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: args}
}

func sizeOption(bytes int64) string { return "size=" + strconv.FormatInt(bytes, 10) }
