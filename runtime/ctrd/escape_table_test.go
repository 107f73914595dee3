package ctrd_test

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// A layer is what must stop an attempt. Each has a line in docs/security.md.
type layer string

const (
	seccompLayer  layer = "seccomp"
	privilege     layer = "no capabilities, no_new_privs"
	namespaces    layer = "namespaces"
	readOnlyRoot  layer = "read-only root"
	mountOptions  layer = "mount options"
	procPaths     layer = "read-only and masked /proc"
	rlimitsLayer  layer = "rlimits"
	cgroupLayer   layer = "control groups"
	runnerApart   layer = "runner that cannot be traced"
	singleUse     layer = "single use"
	boundedTmpfs  layer = "bounded tmpfs"
	networkLayer  layer = "network namespace"
	emptyDevices  layer = "no /sys, few devices"
	kernelDefault layer = "the kernel's own checks"
)

// An attempt is one try to get out. code is the body of a Python function; helpers of attempts.py are there. It raises
// OSError, or returns a text, or has succeeded. want are the outcomes that are no escape, with "|" between them.
type attempt struct {
	what  string // the part of the system that is attacked
	name  string
	layer layer
	want  string
	code  string
}

// attempts are run in this order, each in a process of its own, in one sandbox.
var attempts = []attempt{
	{"namespaces", "unshare user", seccompLayer, "EPERM", `os.unshare(0x10000000)`},
	{"namespaces", "unshare mount", seccompLayer, "EPERM", `os.unshare(0x20000)`},
	{"namespaces", "unshare pid", seccompLayer, "EPERM", `os.unshare(0x20000000)`},
	{"namespaces", "unshare net", seccompLayer, "EPERM", `os.unshare(0x40000000)`},
	{"namespaces", "unshare cgroup", seccompLayer, "EPERM", `os.unshare(0x02000000)`},
	{"namespaces", "setns to its own", seccompLayer, "EPERM", `os.setns(os.open("/proc/self/ns/net", os.O_RDONLY))`},
	{"namespaces", "setns by pidfd", seccompLayer, "EPERM", `os.setns(call("pidfd_open", os.getpid(), 0), 0x20000)`},
	{"namespaces", "clone user", seccompLayer, "EPERM", `call("clone", 0x10000000 | 17, 0, 0, 0, 0)`},
	{"namespaces", "clone3", seccompLayer, "ENOSYS", `call("clone3", ctypes.create_string_buffer(88), 88)`},
	{"namespaces", "namespaces of the first process", runnerApart, "EACCES", `os.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY))`},
	{"namespaces", "uid_map", kernelDefault, "EPERM|EACCES|EROFS", `write("/proc/self/uid_map", "0 0 1")`},

	{"mounts", "mount a tmpfs", seccompLayer, "EPERM", `call("mount", b"t", b"/tmp", b"tmpfs", 0, 0)`},
	{"mounts", "mount a proc", seccompLayer, "EPERM", `call("mount", b"p", b"/tmp", b"proc", 0, 0)`},
	{"mounts", "remount the root", seccompLayer, "EPERM", `call("mount", 0, b"/", 0, 0x20 | 0x1000, 0)`},
	{"mounts", "unmount a mask", seccompLayer, "EPERM", `call("umount2", b"/proc/keys", 2)`},
	{"mounts", "pivot_root", seccompLayer, "EPERM", `call("pivot_root", b"/tmp", b"/tmp")`},
	{"mounts", "chroot", seccompLayer, "EPERM", `os.chroot("/tmp")`},
	{"mounts", "fsopen", seccompLayer, "EPERM", `call("fsopen", b"tmpfs", 0)`},
	{"mounts", "open_tree", seccompLayer, "EPERM", `call("open_tree", -100, b"/", 1)`},
	{"mounts", "move_mount", seccompLayer, "EPERM", `call("move_mount", -100, b"/tmp", -100, b"/workspace", 0)`},
	{"mounts", "mount_setattr", seccompLayer, "EPERM", `call("mount_setattr", -100, b"/", 0, 0, 0)`},
	{"mounts", "open_by_handle_at", seccompLayer, "EPERM", `call("open_by_handle_at", -100, ctypes.create_string_buffer(32), 0)`},
	{"mounts", "name_to_handle_at", seccompLayer, "EPERM", `call("name_to_handle_at", -100, b"/", ctypes.create_string_buffer(160), ctypes.create_string_buffer(8), 0)`},
	{"mounts", "fanotify", seccompLayer, "EPERM", `call("fanotify_init", 0, 0)`},
	{"mounts", "write to the image", readOnlyRoot, "EROFS|EACCES", `write_new = open("/usr/x", "w")`},
	{"mounts", "write to the runner", readOnlyRoot, "EROFS|EACCES", `write("/opt/thawpool/runner.py")`},
	{"mounts", "write to the root", readOnlyRoot, "EROFS|EACCES", `os.mkdir("/x")`},

	{"/proc", "core_pattern", procPaths, "EROFS|EACCES", `write("/proc/sys/kernel/core_pattern", "|/tmp/x")`},
	{"/proc", "modprobe", procPaths, "EROFS|EACCES|ENOENT", `write("/proc/sys/kernel/modprobe", "/tmp/x")`},
	{"/proc", "a sysctl of this network namespace", procPaths, "EROFS|EACCES", `write("/proc/sys/net/ipv4/ping_group_range", "0 65534")`},
	{"/proc", "a sysctl of this ipc namespace", procPaths, "EROFS|EACCES", `write("/proc/sys/kernel/shmmax")`},
	{"/proc", "sysrq-trigger", procPaths, "EROFS|EACCES|ENOENT", `write("/proc/sysrq-trigger", "h")`},
	{"/proc", "affinity of interrupts", procPaths, "EROFS|EACCES|ENOENT", `each(glob.glob("/proc/irq/*affinity*"), write)`},
	{"/proc", "bus devices", procPaths, "EROFS|EACCES|ENOENT|EISDIR", `each(glob.glob("/proc/bus/pci/*/*"), write)`},
	{"/proc", "kernel memory", procPaths, "nothing|EACCES|ENOENT|EPERM", `return read("/proc/kcore")`},
	{"/proc", "kernel symbols", procPaths, "nothing|EACCES|ENOENT", `return read("/proc/kallsyms")`},
	{"/proc", "keys", procPaths, "nothing|EACCES|ENOENT", `return read("/proc/keys")`},
	{"/proc", "command line of the kernel", procPaths, "nothing|EACCES|ENOENT", `return read("/proc/cmdline")`},
	{"/proc", "timers", procPaths, "nothing|EACCES|ENOENT", `return read("/proc/timer_list")`},
	{"/proc", "pressure", procPaths, "ENOENT|EACCES", `return read("/proc/pressure/cpu")`},
	{"/proc", "a better oom score", privilege, "EACCES", `write("/proc/self/oom_score_adj", "-1000")`},

	{"tracing", "ptrace the runner", seccompLayer, "EPERM", `call("ptrace", 0x4206, os.getppid(), 0, 0)`},
	{"tracing", "be traced", seccompLayer, "EPERM", `call("ptrace", 0, 0, 0, 0)`},
	{"tracing", "process_vm_readv", seccompLayer, "EPERM", `call("process_vm_readv", 1, 0, 0, 0, 0, 0)`},
	{"tracing", "process_vm_writev", seccompLayer, "EPERM", `call("process_vm_writev", 1, 0, 0, 0, 0, 0)`},
	{"tracing", "process_madvise", seccompLayer, "EPERM", `call("process_madvise", 0, 0, 0, 0, 0)`},
	{"tracing", "kcmp", seccompLayer, "EPERM", `call("kcmp", 1, os.getpid(), 0, 0, 0)`},
	{"tracing", "pidfd_getfd of the runner", seccompLayer, "EPERM", `call("pidfd_getfd", call("pidfd_open", 1, 0), 0, 0)`},
	{"tracing", "memory of the runner", runnerApart, "EACCES", `os.open("/proc/1/mem", os.O_RDWR)`},
	{"tracing", "descriptors of the runner", runnerApart, "EACCES", `os.open("/proc/1/fd/0", os.O_RDONLY)`},
	{"tracing", "environment of the runner", runnerApart, "EACCES", `return read("/proc/1/environ")`},
	{"tracing", "root of the runner", runnerApart, "EACCES", `os.listdir("/proc/1/root/")`},

	{"kernel interfaces", "keyctl", seccompLayer, "EPERM", `call("keyctl", 0, -3, 0)`},
	{"kernel interfaces", "add_key", seccompLayer, "EPERM", `call("add_key", b"user", b"k", b"v", 1, -3)`},
	{"kernel interfaces", "request_key", seccompLayer, "EPERM", `call("request_key", b"user", b"k", 0, -3)`},
	{"kernel interfaces", "bpf", seccompLayer, "EPERM", `call("bpf", 0, ctypes.create_string_buffer(128), 128)`},
	{"kernel interfaces", "perf_event_open", seccompLayer, "EPERM", `call("perf_event_open", ctypes.create_string_buffer(128), 0, -1, -1, 0)`},
	{"kernel interfaces", "io_uring_setup", seccompLayer, "EPERM", `call("io_uring_setup", 8, ctypes.create_string_buffer(128))`},
	{"kernel interfaces", "io_setup", seccompLayer, "EPERM", `call("io_setup", 1, ctypes.create_string_buffer(8))`},
	{"kernel interfaces", "userfaultfd", seccompLayer, "EPERM", `call("userfaultfd", 1)`},
	{"kernel interfaces", "userfaultfd device", emptyDevices, "ENOENT", `os.open("/dev/userfaultfd", os.O_RDWR)`},
	{"kernel interfaces", "kexec_load", seccompLayer, "EPERM", `call("kexec_load", 0, 0, 0, 0)`},
	{"kernel interfaces", "init_module", seccompLayer, "EPERM", `call("init_module", b"", 0, b"")`},
	{"kernel interfaces", "syslog", seccompLayer, "EPERM", `call("syslog", 3, ctypes.create_string_buffer(64), 64)`},
	{"kernel interfaces", "personality", seccompLayer, "EPERM", `call("personality", 0x0040000)`},
	{"kernel interfaces", "memory policy", seccompLayer, "EPERM", `call("move_pages", 0, 0, 0, 0, 0, 0)`},
	{"kernel interfaces", "page cache of others", seccompLayer, "EPERM", `call("mincore", 0, 4096, ctypes.create_string_buffer(8))`},
	{"kernel interfaces", "set the clock", seccompLayer, "EPERM", `time.clock_settime(time.CLOCK_REALTIME, 0)`},
	{"kernel interfaces", "set the host's name", seccompLayer, "EPERM", `socket.sethostname("x")`},
	{"kernel interfaces", "reboot", seccompLayer, "EPERM", `call("reboot", 0, 0, 0, 0)`},
	{"kernel interfaces", "swapon", seccompLayer, "EPERM", `call("swapon", b"/tmp/x", 0)`},
	{"kernel interfaces", "write out all disks", seccompLayer, "returned at once", `os.sync(); return "returned at once"`},

	{"sockets", "abstract unix socket of the host", networkLayer, "ECONNREFUSED", `connect(socket.AF_UNIX, "\0" + HOST["abstract"])`},
	{"sockets", "unix socket of the host", namespaces, "ENOENT", `connect(socket.AF_UNIX, HOST["socket"])`},
	{"sockets", "containerd and others", namespaces, "ENOENT", `each(["/run/thawpool/run/containerd.sock", "/run/containerd/containerd.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"], lambda p: connect(socket.AF_UNIX, p))`},
	{"sockets", "tcp to the host", networkLayer, "ECONNREFUSED|ENETUNREACH", `connect(socket.AF_INET, ("127.0.0.1", HOST["port"]))`},
	{"sockets", "tcp to the world", networkLayer, "ENETUNREACH", `connect(socket.AF_INET, ("1.1.1.1", 53))`},
	{"sockets", "tcp over IPv6", networkLayer, "ENETUNREACH|EADDRNOTAVAIL|EAFNOSUPPORT", `connect(socket.AF_INET6, ("2606:4700:4700::1111", 53))`},
	{"sockets", "udp", networkLayer, "ENETUNREACH", `connect(socket.AF_INET, ("8.8.8.8", 53), socket.SOCK_DGRAM)`},
	{"sockets", "raw", privilege, "EPERM", `socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)`},
	{"sockets", "netlink", seccompLayer, "EPERM", `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)`},
	{"sockets", "packet", seccompLayer, "EPERM", `socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)`},
	{"sockets", "vsock", seccompLayer, "EPERM", `socket.socket(40, socket.SOCK_STREAM)`},
	{"sockets", "kernel crypto", seccompLayer, "EPERM", `socket.socket(38, socket.SOCK_SEQPACKET)`},
	{"sockets", "bluetooth", seccompLayer, "EPERM", `socket.socket(31, socket.SOCK_RAW)`},
	{"sockets", "every other family", seccompLayer, "EPERM", `each([f for f in range(3, 64) if f != socket.AF_INET6], lambda f: socket.socket(f, socket.SOCK_DGRAM))`},

	{"devices", "mknod", privilege, "EPERM", `os.mknod("/tmp/null", 0o20666, os.makedev(1, 3))`},
	{"devices", "mknod of a disk", privilege, "EPERM", `os.mknod("/tmp/disk", 0o60666, os.makedev(8, 0))`},
	{"devices", "memory, disks, kvm, fuse, tun, loop", emptyDevices, "ENOENT", `each(["/dev/" + n for n in "mem kmem port kmsg sda vda nvme0n1 kvm fuse net/tun loop-control mapper/control vhost-net uinput".split()], lambda p: os.open(p, os.O_RDONLY))`},
	{"devices", "new entry in /dev", mountOptions, "EROFS|EACCES", `open("/dev/x", "w")`},
	{"devices", "pseudo terminals", emptyDevices, "ENOENT", `os.open("/dev/ptmx", os.O_RDWR)`},
	{"devices", "the controlling terminal", emptyDevices, "ENXIO", `os.open("/dev/tty", os.O_RDWR)`},
	{"devices", "control groups, debugfs, tracefs, efi", emptyDevices, "ENOENT", `each(["/sys/fs/cgroup", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/firmware/efi", "/sys/class", "/sys/devices"], os.listdir)`},

	{"privilege", "setuid(0)", privilege, "EPERM", `os.setuid(0)`},
	{"privilege", "setgid and setgroups", privilege, "EPERM", `os.setgroups([0])`},
	{"privilege", "all capabilities", privilege, "EPERM", `call("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[0xffffffff] * 6))`},
	{"privilege", "an ambient capability", privilege, "EPERM", `libc.prctl(47, 2, 21, 0, 0) == 0 or call("prctl", 47, 2, 21, 0, 0)`},
	{"privilege", "clear no_new_privs", privilege, "EINVAL", `call("prctl", 38, 0, 0, 0, 0)`},
	{"privilege", "leave seccomp", kernelDefault, "EINVAL", `call("prctl", 22, 0, 0, 0, 0)`},
	{"privilege", "chown", privilege, "EPERM", `open("/tmp/o", "w"); os.chown("/tmp/o", 0, 0)`},
	{"privilege", "run a set-uid file of its own", mountOptions, "EACCES", `os.execv(program(sys.executable, "/tmp/suid"), ["x", "-c", ""])`},
	{"privilege", "run a program from /workspace", mountOptions, "EACCES", `os.execv(program(sys.executable, "/workspace/suid"), ["x", "-c", ""])`},
	{"privilege", "map a file as code", mountOptions, "EPERM|EACCES", `f = open(program(sys.executable, "/tmp/lib"), "rb"); mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)`},
	{"privilege", "set-uid files in the image", readOnlyRoot, "none", `return [os.path.join(d, f) for d, _, fs in os.walk("/usr") for f in fs if os.lstat(os.path.join(d, f)).st_mode & 0o6000] or "none"`},
	{"privilege", "run from memory", privilege, "same ids, no capability, the filter stays", `
fd = libc.memfd_create(b"x", 0)
with open(sys.executable, "rb") as f: os.write(fd, f.read())
os.fchmod(fd, 0o6755)
script = "import os; s = open('/proc/self/status').read(); os._exit(0 if os.getresuid() == (65534,) * 3 and 'CapPrm:\t0000000000000000' in s and 'Seccomp:\t2' in s else 3)"
got = spawn("/proc/self/fd/%d" % fd, "-S", "-c", script)
return "same ids, no capability, the filter stays" if got == 0 else "status %d" % got`},

	{"limits", "raise the number of files", rlimitsLayer, "ValueError: not allowed to raise maximum limit", `resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))`},
	{"limits", "lock memory", rlimitsLayer, "ENOMEM|EPERM", `m = mmap.mmap(-1, 1 << 20); call("mlock", ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m))), 1 << 20)`},
	{"limits", "message queues", rlimitsLayer, "EMFILE|ENOSPC", `call("mq_open", b"q", os.O_RDWR | os.O_CREAT, 0o600, 0)`},
	{"limits", "turn core dumps on", seccompLayer, "ValueError: not allowed to raise maximum limit", `resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))`},
	{"limits", "core dumps for the host's handler", seccompLayer, "ValueError: not allowed to raise maximum limit", `resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))`},
	{"limits", "the same by the old call", seccompLayer, "EPERM", `call("setrlimit", resource.RLIMIT_CORE, struct.pack("QQ", 0, 0))`},
	{"limits", "dump core", rlimitsLayer, "SIGSEGV", `ctypes.string_at(0)`},
	{"limits", "run before others: real-time, nice", privilege, "EPERM|EACCES", `each([lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)), lambda: os.setpriority(os.PRIO_PROCESS, 0, -5)], lambda f: f())`},
	{"limits", "real-time input and output", privilege, "EPERM", `call("ioprio_set", 1, 0, 1 << 13)`},
	{"limits", "fork bomb", cgroupLayer, "EAGAIN", `
children = []
try:
    for i in range(300):
        children.append(os.fork())
        if children[-1] == 0:
            while True: signal.pause()
finally:
    for pid in children: os.kill(pid, 9)
    for pid in children: os.waitpid(pid, 0)`},
	{"limits", "threads", cgroupLayer, "RuntimeError: can't start new thread", `
import threading
for i in range(300): threading.Thread(target=time.sleep, args=(20,), daemon=True).start()`},
	{"limits", "fill /tmp", boundedTmpfs, "ENOSPC", `
with open("/tmp/big", "wb") as f:
    for i in range(100): f.write(bytes(1 << 20))`},
	{"limits", "use up inodes", boundedTmpfs, "ENOSPC", `
for i in range(70000): os.close(os.open("/dev/shm/%d" % i, os.O_CREAT | os.O_WRONLY))`},

	{"control groups", "files of control groups", namespaces, "none", `return [os.path.join(d, f) for top in ("/sys", "/dev", "/tmp", "/run") for d, _, fs in os.walk(top) for f in fs if f.startswith("cgroup.") or f == "tasks"] or "none"`},
	{"control groups", "its own path", namespaces, "/", `return ",".join(sorted({line.strip().split(":", 2)[2] for line in open("/proc/self/cgroup")}))`},
	{"control groups", "mount one", seccompLayer, "EPERM", `call("mount", b"c", b"/tmp", b"cgroup2", 0, 0)`},

	{"processes outside", "signal one of the host", namespaces, "ESRCH", `os.kill(HOST["pid"], 9)`},
	{"processes outside", "open one of the host", namespaces, "ESRCH|EINVAL", `call("pidfd_open", HOST["pid"], 0)`},
	{"processes outside", "look at one of the host", namespaces, "ENOENT", `os.listdir("/proc/%d" % HOST["pid"])`},
	{"processes outside", "signal a session or group of the host", namespaces, "ESRCH", `os.killpg(HOST["pid"], 9)`},
	{"processes outside", "see any", namespaces, "none", `return others() or "none"`},
	{"processes outside", "kill the runner", namespaces, "it lives", `os.kill(1, 9); time.sleep(0.2); return "it lives" if os.path.exists("/proc/1") else "gone"`},
	{"processes outside", "limits of the runner", seccompLayer, "EPERM", `resource.prlimit(1, resource.RLIMIT_NOFILE, (10, 10))`},

	{"data of another run", "its files by /proc/PID/root", namespaces, "ENOENT", `each(["/proc/%d/root%s" % (HOST["victim"], p) for p in HOST["secrets"]], read)`},
	{"data of another run", "its descriptors", namespaces, "ENOENT", `each(["/proc/%d/fd/%d" % (HOST["victim"], i) for i in range(256)], read)`},
	{"data of another run", "the same names here", singleUse, "ENOENT", `each(HOST["secrets"], read)`},
	{"data of another run", "host's paths: FIFOs, snapshots, state", namespaces, "ENOENT", `each(HOST["paths"], os.stat)`},
	{"data of another run", "host's paths through a symlink", namespaces, "ENOENT", `
def through(p):
    os.symlink("../" * 20 + p, "/tmp/link")
    try: return os.stat("/tmp/link")
    finally: os.unlink("/tmp/link")
each(HOST["paths"], through)`},
	{"data of another run", "memory files and pipes through /proc", namespaces, "none", `return [p for p in glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/proc/[0-9]*/task/*/fd/*") if p.split("/")[2] != str(os.getpid()) and os.path.exists(p) and "memfd:secret" in os.readlink(p)] or "none"`},
	{"data of another run", "its abstract socket", networkLayer, "ECONNREFUSED", `connect(socket.AF_UNIX, "\0victim")`},
	{"data of another run", "shared memory of System V", namespaces, "ENOENT", `call("shmget", HOST["key"], 0, 0)`},
	{"data of another run", "semaphores of System V", namespaces, "ENOENT", `call("semget", HOST["key"], 0, 0)`},
	{"data of another run", "a file system that shows it", namespaces, "none", `
found = []
for top in ("/tmp", "/workspace", "/dev/shm", "/run", "/var", "/root"):
    for d, _, files in os.walk(top):
        found += [d + "/" + f for f in files if "secret" in f]
return found or "none"`},
	{"data of another run", "secrets in the environment", namespaces, "none", `return [k for k in os.environ if "SECRET" in k] or "none"`},
	{"data of another run", "inherited descriptors", namespaces, "pipes alone", `
kinds = {os.readlink("/proc/self/fd/" + n).split(":")[0] for n in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + n)}
return "pipes alone" if kinds - {"pipe", "/dev/null", "/dev/urandom", "/proc/%d/fd" % os.getpid(), "anon_inode"} == set() else sorted(kinds)`},
}

var updateDocs = flag.Bool("update-docs", false, "rewrite the table of attempts in docs/security.md")

// document is what the suite's table is published in, between the two marks.
const (
	document   = "../../docs/security.md"
	tableBegin = "<!-- attempts: made by go test ./runtime/ctrd -run TestDocumentHasTheAttempts -update-docs -->\n"
	tableEnd   = "<!-- end of attempts -->\n"
)

// table has one line for the attempts that one layer stops in one part of the system with one result.
func table() string {
	type row struct {
		what    string
		stopped layer
		result  string
	}
	var order []row
	names := map[row][]string{}
	for _, a := range attempts {
		r := row{a.what, a.layer, strings.ReplaceAll(a.want, "|", " or ")}
		if names[r] == nil {
			order = append(order, r)
		}
		names[r] = append(names[r], a.name)
	}
	var b strings.Builder
	b.WriteString("| attacked | attempts | stopped by | result |\n|---|---|---|---|\n")
	for _, r := range order {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.what, strings.Join(names[r], "; "), r.stopped, r.result)
	}
	return b.String()
}

func TestDocumentHasTheAttempts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(ctrdtest.File(document))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableBegin)
	got, after, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", document)
	}
	if *updateDocs {
		if err := os.WriteFile(document, []byte(before+tableBegin+table()+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != table() {
		t.Errorf("the table of attempts in %s is not the suite's; -update-docs rewrites it", document)
	}
}

// sandboxGolden is what `thawpool doctor --sandbox` prints of a sandbox with the default limits.
//
//go:embed testdata/sandbox.golden
var sandboxGolden string

func TestDocumentHasTheConfiguration(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(ctrdtest.File(document))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```text\n"+sandboxGolden+"```\n") {
		t.Errorf("%s does not have what doctor --sandbox prints, which is testdata/sandbox.golden", document)
	}
}

func TestAttemptsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, a := range attempts {
		if seen[a.name] || a.want == "" || strings.Contains("|"+a.want+"|", "|succeeded|") {
			t.Errorf("%s is there twice, or wants nothing", a.name)
		}
		seen[a.name] = true
	}
}
