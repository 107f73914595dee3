//go:build integration

package ctrd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
)

// look is what the code inside finds out about its sandbox. Each of tries is what an attempt gave: "ok", or the name of
// the errno.
const look = `
import ctypes, errno, json, os, resource, socket

def attempt(f, *args):
    try:
        f(*args)
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
    except ValueError: # of setrlimit
        return "EPERM"

libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    def do():
        ctypes.set_errno(0)
        if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args]) == -1:
            raise OSError(ctypes.get_errno(), "")
    return attempt(do)

def write(path):
    with open(path, "w") as f:
        f.write("x")

def fill(path, n):
    with open(path, "wb") as f:
        for _ in range(n): f.write(bytes(1 << 20))

def execute(path):
    with open(path, "w") as f: f.write("#!/bin/sh\n")
    os.chmod(path, 0o755)
    if os.posix_spawn(path, [path], {}): pass

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect(address)

x86 = os.uname().machine == "x86_64"
tries = {
    "write /": attempt(write, "/x"), "write /usr": attempt(write, "/usr/x"), "write guest": attempt(write, "/opt/thawpool/x"),
    "write /proc/sys": attempt(write, "/proc/sys/kernel/hostname"), "write /dev": attempt(write, "/dev/x"),
    "write /tmp": attempt(write, "/tmp/x"), "write /workspace": attempt(write, "/workspace/x"), "write /dev/shm": attempt(write, "/dev/shm/x"),
    "exec /tmp": attempt(execute, "/tmp/s"), "exec /workspace": attempt(execute, "/workspace/s"), "exec /dev/shm": attempt(execute, "/dev/shm/s"),
    "fill /tmp": attempt(fill, "/tmp/big", 80), "inodes /dev/shm": attempt(fill, "/dev/shm/big", 40),
    "setuid": attempt(os.setuid, 0), "chown": attempt(os.chown, "/tmp/x", 0, 0), "mknod": attempt(os.mknod, "/tmp/null", 0o20666, 0x103),
    "chroot": attempt(os.chroot, "/tmp"), "unshare user": attempt(os.unshare, 0x10000000), "unshare mount": attempt(os.unshare, 0x20000),
    "setns": attempt(os.setns, os.open("/proc/self/ns/net", os.O_RDONLY)), "sethostname": attempt(socket.sethostname, "x"),
    "inet": attempt(connect, socket.AF_INET, ("1.1.1.1", 53)), "inet6": attempt(connect, socket.AF_INET6, ("2606:4700:4700::1111", 53)),
    "unix": attempt(connect, socket.AF_UNIX, "/run/thawpool/run/containerd.sock"), "abstract": attempt(connect, socket.AF_UNIX, "\0/tmp/dbus"),
    "netlink": attempt(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, 0), "packet": attempt(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0),
    "vsock": attempt(socket.socket, 40, socket.SOCK_STREAM), "alg": attempt(socket.socket, 38, socket.SOCK_SEQPACKET),
    "raise nofile": attempt(resource.setrlimit, resource.RLIMIT_NOFILE, (1 << 20, 1 << 20)),
    "sync": attempt(os.sync), "resolve": attempt(lambda: socket.gethostbyname(socket.gethostname())),
    "bpf": call(321, 0, 0, 0) if x86 else "EPERM", "perf_event_open": call(298, 0, 0, -1, -1, 0) if x86 else "EPERM",
    "io_uring_setup": call(425, 1, 0), "clone3": call(435, 0, 0), "pidfd_getfd": call(438, 0, 0, 0),
    "open_tree": call(428, -100, 0, 0), "fsopen": call(430, 0, 0), "mount_setattr": call(442, 0, 0, 0, 0, 0),
    "ptrace": call(101, 0, 0, 0, 0) if x86 else "EPERM", "process_vm_readv": call(310, 1, 0, 0, 0, 0, 0) if x86 else "EPERM",
    "keyctl": call(250, 0, -3, 0) if x86 else "EPERM", "add_key": call(248, 0, 0, 0, 0, 0) if x86 else "EPERM",
    "userfaultfd": call(323, 0) if x86 else "EPERM", "mount": call(165, 0, 0, 0, 0, 0) if x86 else "EPERM",
    "clone user": call(56, 0x10000000 | 17, 0, 0, 0, 0) if x86 else "EPERM", "kexec_load": call(246, 0, 0, 0, 0) if x86 else "EPERM",
    "name_to_handle_at": call(303, -100, 0, 0, 0, 0) if x86 else "EPERM", "personality": call(135, 0x0040000) if x86 else "EPERM",
    "personality query": call(135, 0xffffffff) if x86 else "ok", "init_module": call(175, 0, 0, 0) if x86 else "EPERM",
    "seccomp": call(317, 0, 0, 0) if x86 else "EPERM", "io_setup": call(206, 1, 0) if x86 else "EPERM",
}
masked = {}
for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/kallsyms", "/proc/modules", "/proc/cmdline"):
    try:
        with open(path, "rb") as f: masked[path] = len(f.read(100))
    except OSError as e:
        masked[path] = 0
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
print(json.dumps({
    "ids": list(os.getresuid() + os.getresgid()), "groups": os.getgroups(),
    "status": status, "mounts": open("/proc/self/mountinfo").read(), "cgroup": open("/proc/self/cgroup").read(),
    "hostname": os.uname().nodename, "domain": open("/proc/sys/kernel/domainname").read().strip(),
    "env": dict(os.environ), "cwd": os.getcwd(),
    "dev": sorted(os.listdir("/dev")), "sys": os.listdir("/sys") if os.path.isdir("/sys") else [],
    "pids": [p for p in os.listdir("/proc") if p.isdigit()], "netdev": open("/proc/net/dev").read(), "tries": tries, "masked": masked,
    "core": list(resource.getrlimit(resource.RLIMIT_CORE)), "nofile": list(resource.getrlimit(resource.RLIMIT_NOFILE)),
    "fds": {fd: os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd") if os.path.lexists("/proc/self/fd/" + fd)},
    "oom": int(open("/proc/self/oom_score_adj").read()),
}))
`

// found is what look prints.
type found struct {
	IDs, Groups      []int
	Status           map[string]string
	Mounts, Cgroup   string
	Hostname, Domain string
	Env              map[string]string
	Cwd              string
	Dev, Sys, PIDs   []string
	NetDev           string
	Tries            map[string]string
	Masked           map[string]int
	Core, NoFile     []int64
	FDs              map[string]string
	OOM              int
}

// allowed are the attempts that succeed; every other one must fail.
var allowed = []string{
	"write /tmp", "write /workspace", "write /dev/shm", "sync", "personality query", "resolve",
}

func TestInside(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		t.Setenv("SECRET_OF_THE_HOST", "do-not-tell")
		sb := ctrdtest.Boot(t, rt, "inside")
		out := must(t, sb, look)
		var f found
		if err := json.Unmarshal([]byte(out), &f); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		checkPrivileges(t, f)
		checkSurroundings(t, e, f)
		for name, got := range f.Tries {
			if (got == "ok") != slices.Contains(allowed, name) {
				t.Errorf("%s gives %s", name, got)
			}
		}
		for path, n := range f.Masked {
			if n > 0 {
				t.Errorf("%s can be read", path)
			}
		}
	})
}

func checkPrivileges(t *testing.T, f found) {
	t.Helper()
	for _, id := range f.IDs {
		if id != runtime.GuestID {
			t.Errorf("ids %v", f.IDs)
		}
	}
	if len(f.Groups) != 0 {
		t.Errorf("groups %v", f.Groups)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if f.Status[set] != "0000000000000000" {
			t.Errorf("%s is %s", set, f.Status[set])
		}
	}
	if f.Status["NoNewPrivs"] != "1" || f.Status["Seccomp"] != "2" {
		t.Errorf("no_new_privs %s, seccomp mode %s", f.Status["NoNewPrivs"], f.Status["Seccomp"])
	}
	if f.Core[0] > 1 || f.Core[1] > 1 || f.NoFile[1] > runtime.DefaultLimits().OpenFiles {
		t.Errorf("core limit %v, files %v", f.Core, f.NoFile)
	}
	if f.OOM < 500 {
		t.Errorf("oom score %d: the kernel may choose the host's own processes first", f.OOM)
	}
}

func checkSurroundings(t *testing.T, e *ctrdtest.Env, f found) {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{e.StateDir, me.HomeDir, "/var/tmp", "SECRET_OF_THE_HOST", "do-not-tell"} {
		if text := f.Mounts + f.Cgroup + fmt.Sprint(f.Env, f.FDs); strings.Contains(text, secret) {
			t.Errorf("%s can be seen inside: %s", secret, text)
		}
	}
	if f.Hostname == name || f.Domain != "(none)" {
		t.Errorf("hostname %s, domain %s", f.Hostname, f.Domain)
	}
	for line := range strings.Lines(f.Cgroup) {
		if !strings.HasSuffix(strings.TrimSpace(line), ":/") {
			t.Errorf("cgroup %s", line)
		}
	}
	if len(f.Sys) != 0 {
		t.Errorf("/sys has %v", f.Sys)
	}
	want := []string{"core" /* a link to /proc/kcore, which is masked */, "fd", "full", "null", "ptmx", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
	for _, d := range f.Dev {
		if !slices.Contains(want, d) {
			t.Errorf("/dev/%s", d)
		}
	}
	if len(f.PIDs) > 2 {
		t.Errorf("processes %v are visible", f.PIDs)
	}
	if n := strings.Count(f.NetDev, ":"); n != 1 || !strings.Contains(f.NetDev, "lo:") {
		t.Errorf("network devices: %s", f.NetDev)
	}
	if f.Cwd != runtime.Workspace {
		t.Errorf("working directory %s", f.Cwd)
	}
	checkMounts(t, f.Mounts)
}

// checkMounts: everything that can be written to is noexec, nosuid and nodev; the root is read-only.
func checkMounts(t *testing.T, mountinfo string) {
	t.Helper()
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 7 {
			continue
		}
		where, options := fields[4], strings.Split(fields[5], ",")
		if where == "/" && !slices.Contains(options, "ro") {
			t.Errorf("the root is writable: %s", line)
		}
		// Device nodes are bind mounts of single files, and the masks over /proc read as nothing.
		if strings.HasPrefix(where, "/proc/") || strings.HasPrefix(where, "/dev/") && where != "/dev/shm" {
			continue
		}
		if slices.Contains(options, "ro") {
			continue
		}
		for _, o := range []string{"nosuid", "nodev", "noexec"} {
			if !slices.Contains(options, o) {
				t.Errorf("%s is not %s: %s", where, o, line)
			}
		}
	}
}

// TestRunsShareNothing: two runs share no file, process, IPC object or namespace.
func TestRunsShareNothing(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		const code = `
import ctypes, os
for d in ("/tmp", "/workspace", "/dev/shm"):
    print(d, sorted(os.listdir(d)))
    open(d + "/left", "w").close()
libc = ctypes.CDLL(None)
print("shm", libc.shmget(4711, 4096, 0))
libc.shmget(4711, 4096, 0o1666)
for ns in ("pid", "mnt", "ipc", "uts", "net", "cgroup"):
    print("ns", ns, os.readlink("/proc/self/ns/" + ns))
`
		first, second := ctrdtest.Boot(t, rt, "share-1"), ctrdtest.Boot(t, rt, "share-2")
		a, b := must(t, first, code), must(t, second, code)
		if !strings.Contains(a, "shm -1") || !strings.Contains(b, "shm -1") {
			t.Errorf("a shared memory segment is there from the start:\n%s\n%s", a, b)
		}
		for line := range strings.Lines(b) {
			if strings.HasPrefix(line, "ns ") && strings.Contains(a, line) {
				t.Errorf("same namespace: %s", line)
			}
			if strings.Contains(line, "left") {
				t.Errorf("a file of another run: %s", line)
			}
		}
	})
}

// TestRunsDoNotSeeEachOthersFiles: what a run does with files of the image, which all have, another can neither watch nor
// hold up. Each has an overlay mount of its own, and with it inodes of its own.
func TestRunsDoNotSeeEachOthersFiles(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		spy, neighbour := ctrdtest.Boot(t, rt, "watch-1"), ctrdtest.Boot(t, rt, "watch-2")
		frames, to := guest.NewReader(spy.Stream()), guest.NewWriter(spy.Stream())
		if err := spy.Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := to.Run(guest.Run{ID: "r", ValueMax: 1 << 16, Servers: []guest.Server{{Name: "host", Alias: "host"}}, Code: `
import ctypes, fcntl, os
libc, places = ctypes.CDLL(None), ["/usr/bin", os.path.dirname(os.__file__), os.path.dirname(os.__file__) + "/wsgiref"]
held = open(os.__file__)
fcntl.flock(held, fcntl.LOCK_EX)
notices = libc.inotify_init1(os.O_NONBLOCK)
def seen():
    try: return len(os.read(notices, 65536))
    except BlockingIOError: return 0
print([libc.inotify_add_watch(notices, os.fsencode(p), 0xfff) > 0 for p in places])
mcp_host.wait.sync()
print(seen())
open(places[1] + "/wsgiref/__init__.py").close()
print(seen() > 0)
`})
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for {
			f, err := frames.Next()
			if err != nil {
				t.Fatal(err)
			}
			out += string(f.Data)
			if f.Kind == guest.KindCall {
				got := must(t, neighbour, `
import fcntl, os, wsgiref.util
with open(os.__file__) as f:
    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("free")
`)
				if got != "free\n" {
					t.Errorf("the neighbour says %q", got)
				}
				if err := to.Reply(f.ID, []byte("null"), nil); err != nil {
					t.Fatal(err)
				}
			}
			if f.Kind == guest.KindExit {
				break
			}
		}
		if want := "[True, True, True]\n0\nTrue\n"; out != want {
			t.Errorf("got %q, want %q", out, want)
		}
	})
}
