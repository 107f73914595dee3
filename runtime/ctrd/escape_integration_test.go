//go:build integration

package ctrd_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
)

//go:embed testdata/escape/attempts.py
var attemptsCode string

// numbers are the system calls that attempts make by number.
var numbers = map[string]int{
	"clone": unix.SYS_CLONE, "clone3": unix.SYS_CLONE3, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2,
	"pivot_root": unix.SYS_PIVOT_ROOT, "fsopen": unix.SYS_FSOPEN, "open_tree": unix.SYS_OPEN_TREE,
	"move_mount": unix.SYS_MOVE_MOUNT, "mount_setattr": unix.SYS_MOUNT_SETATTR,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT,
	"fanotify_init": unix.SYS_FANOTIFY_INIT, "ptrace": unix.SYS_PTRACE, "process_vm_readv": unix.SYS_PROCESS_VM_READV,
	"process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "process_madvise": unix.SYS_PROCESS_MADVISE, "kcmp": unix.SYS_KCMP,
	"pidfd_getfd": unix.SYS_PIDFD_GETFD, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY,
	"request_key": unix.SYS_REQUEST_KEY, "bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN,
	"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_setup": unix.SYS_IO_SETUP, "userfaultfd": unix.SYS_USERFAULTFD,
	"kexec_load": unix.SYS_KEXEC_LOAD, "init_module": unix.SYS_INIT_MODULE, "syslog": unix.SYS_SYSLOG,
	"personality": unix.SYS_PERSONALITY, "move_pages": unix.SYS_MOVE_PAGES, "mincore": unix.SYS_MINCORE,
	"reboot": unix.SYS_REBOOT, "swapon": unix.SYS_SWAPON, "capset": unix.SYS_CAPSET, "prctl": unix.SYS_PRCTL,
	"mlock": unix.SYS_MLOCK, "mq_open": unix.SYS_MQ_OPEN, "ioprio_set": unix.SYS_IOPRIO_SET,
	"pidfd_open": unix.SYS_PIDFD_OPEN, "setrlimit": unix.SYS_SETRLIMIT, "shmget": unix.SYS_SHMGET, "semget": unix.SYS_SEMGET,
}

// secrets are the files that the victim has written.
var secrets = []string{"/tmp/secret", "/workspace/secret", "/dev/shm/secret", "/tmp/secret.fifo"}

// victimCode leaves what another run could look for, says so, and stays.
const victimCode = `
import ctypes, os, socket, time
for d in ("/tmp", "/workspace", "/dev/shm"):
    with open(d + "/secret", "w") as f: f.write("the victim's own words")
os.mkfifo("/tmp/secret.fifo")
libc = ctypes.CDLL(None)
os.write(libc.memfd_create(b"secret", 0), b"words in memory")
s = socket.socket(socket.AF_UNIX); s.bind("\0victim"); s.listen()
assert libc.shmget(4711, 4096, 0o1666) >= 0 and libc.semget(4711, 1, 0o1666) >= 0
os.environ["SECRET"] = "x"
print("laid out", flush=True)
time.sleep(600)
`

// TestEscape tries every attempt beside a victim, with both shims. The victim and the processes of the host that were
// aimed at are there in the end.
func TestEscape(t *testing.T) {
	both(t, func(t *testing.T, e *ctrdtest.Env, rt *ctrd.Runtime) {
		victim := ctrdtest.Boot(t, rt, "victim")
		layOut(t, victim)
		decoy := startDecoy(t)
		host := hostOf(t, e, victim, decoy)
		got := tryAll(t, ctrdtest.Boot(t, rt, "hostile"), host, attempts)
		for _, a := range violations(attempts, got) {
			t.Errorf("%s, %s: gives %q, and %s should have given %q", a.what, a.name, got[a.name], a.layer, a.want)
		}
		if err := decoy.Process.Signal(unix.Signal(0)); err != nil {
			t.Errorf("the process of the host: %v", err)
		}
		select {
		case <-victim.Done():
			t.Error("the victim has ended")
		default:
		}
	})
}

// violations are the attempts with another outcome than one that is wanted.
func violations(tried []attempt, got map[string]string) []attempt {
	var all []attempt
	for _, a := range tried {
		if !slices.Contains(strings.Split(a.want, "|"), got[a.name]) {
			all = append(all, a)
		}
	}
	return all
}

// tryAll runs attempts in a sandbox and gives their outcomes by name.
func tryAll(t *testing.T, sb runtime.Sandbox, host map[string]any, tried []attempt) map[string]string {
	t.Helper()
	var pairs [][2]string
	for _, a := range tried {
		pairs = append(pairs, [2]string{a.name, a.code})
	}
	var got map[string]string
	decode(t, must(t, sb, python("HOST", host)+python("NUMBERS", numbers)+python("ATTEMPTS", pairs)+attemptsCode), &got)
	return got
}

// python assigns a value to a name.
func python(name string, value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // of a test's own making
	}
	return fmt.Sprintf("import json\n%s = json.loads(%s)\n", name, strconv.QuoteToASCII(string(data)))
}

func decode(t *testing.T, out string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
}

// layOut lets a victim run until its secrets are there.
func layOut(t *testing.T, sb runtime.Sandbox) {
	t.Helper()
	if err := sb.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := guest.NewWriter(sb.Stream()).Run(guest.Run{ID: "v", Code: victimCode, ValueMax: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	if f, err := guest.NewReader(sb.Stream()).Next(); err != nil || string(f.Data) != "laid out\n" {
		t.Fatalf("the victim says %s %q %+v, %v", f.Kind, f.Data, f.Error, err)
	}
}

// startDecoy starts a process of the host that does nothing, for signals to be aimed at.
func startDecoy(t *testing.T) *exec.Cmd {
	t.Helper()
	decoy := exec.CommandContext(t.Context(), "sleep", "600")
	decoy.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := decoy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = decoy.Process.Kill(), decoy.Wait() })
	return decoy
}

// hostOf is what attempts aim at: sockets that listen on the host, and names of what is the victim's.
func hostOf(t *testing.T, e *ctrdtest.Env, victim runtime.Sandbox, decoy *exec.Cmd) map[string]any {
	t.Helper()
	abstract := "thawpool-escape-" + strconv.Itoa(decoy.Process.Pid)
	path := filepath.Join(t.TempDir(), "s.sock")
	port := 0
	for _, l := range [][2]string{{"unix", "@" + abstract}, {"unix", path}, {"tcp", "127.0.0.1:0"}} {
		listener, err := net.Listen(l[0], l[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		if a, ok := listener.Addr().(*net.TCPAddr); ok {
			port = a.Port
		}
	}
	return map[string]any{
		"abstract": abstract, "socket": path, "port": port, "pid": decoy.Process.Pid, "victim": pidOf(t, victim),
		"secrets": secrets, "key": 4711,
		"paths": []string{e.StateDir, filepath.Join(e.StateDir, "run"), "/run/thawpool/root", "/proc/self/root" + e.StateDir},
	}
}

// pidOf is the number that the first process of a sandbox has on the host.
func pidOf(t *testing.T, sb runtime.Sandbox) int {
	t.Helper()
	all, err := ctrdtest.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID))
		if err == nil && strings.Contains(string(groups), "/"+sb.ID()+"\n") {
			return p.PID
		}
	}
	t.Fatalf("no process is in the control group of %s", sb.ID())
	return 0
}
