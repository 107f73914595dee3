package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime"
)

// whole is /proc/PID of a process that is confined as a sandbox is.
var whole = map[string]string{
	"status": "Name:\tpython3\nUid:\t165533\t165533\t165533\t165533\nGid:\t165533\t165533\t165533\t165533\nGroups:\t \n" +
		"CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n" +
		"NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n",
	"oom_score_adj": "500\n", "uid_map": "0 999 1\n1 100000 65536\n", "gid_map": "0 995 1\n1 100000 65536\n",
	"environ": "PATH=/bin\x00HOME=/workspace\x00",
	"mountinfo": `138 52 0:39 / / ro,relatime - overlay overlay ro,lowerdir=/of/the/host
140 138 0:55 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
141 138 0:58 / /tmp rw,nosuid,nodev,noexec,relatime - tmpfs tmpfs rw,size=65536k,uid=999
145 141 0:6 /null /dev/null rw,relatime - devtmpfs devtmpfs rw
57 140 0:55 /sys /proc/sys ro,nosuid,nodev,noexec,relatime - proc proc rw
70 140 0:6 /null /proc/version rw,relatime - devtmpfs devtmpfs rw
`,
}

func limitsTable(core, locked string) string {
	var b strings.Builder
	for title := range rlimitNames {
		switch title {
		case "Max core file size":
			b.WriteString(title + " " + core + " " + core + " bytes\n")
		case "Max locked memory":
			b.WriteString(title + " " + locked + " " + locked + " bytes\n")
		default:
			b.WriteString(title + "  unlimited  unlimited  x\n")
		}
	}
	return b.String()
}

// paths exist on every kernel.
var paths = runtime.Paths{ReadOnly: []string{"/proc/sys"}, Masked: []string{"/proc/version"}}

// printed is the text for a process with these files in /proc.
func printed(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var r Report
	for _, step := range []func(*Report, string) error{readStatus, readMaps, readRlimits, readEnvironment, readMounts} {
		if err := step(&r, dir); err != nil {
			t.Fatal(err)
		}
	}
	r.findBare(paths)
	var b strings.Builder
	if err := r.Print(&b, paths); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPrintsHowAProcessIsConfined(t *testing.T) {
	t.Parallel()
	whole["limits"] = limitsTable("1", "65536")
	text := printed(t, whole)
	for _, line := range []string{
		"ids           uid 65534, gid 65534, groups none; on the host a subordinate id without an account",
		"capabilities  none in any set", "privileges    no_new_privs true, seccomp mode 2 with 1 filter",
		"rlimit        CORE 1, at most 1", "rlimit        MEMLOCK 65536, at most 65536",
		"mount         / ro", "mount         /proc rw,nosuid,nodev,noexec", "mount         /tmp rw,nosuid,nodev,noexec,size=65536k",
		"devices       /dev/null", "read-only     /proc/sys", "masked        /proc/version", "bare          none", "environment   HOME PATH",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "/of/the/host") {
		t.Errorf("a path of the host in\n%s", text)
	}
	for name, weak := range map[string]struct{ file, from, to, want string }{
		"a capability":       {"status", "CapEff:\t0000000000000000", "CapEff:\t0000000000200000", "capabilities  CapEff 0000000000200000"},
		"a group":            {"status", "Groups:\t", "Groups:\t995", "groups 0"},
		"the user's own id":  {"status", "Uid:\t165533\t165533\t165533\t165533", "Uid:\t0\t0\t0\t0", "on the host the account with uid 0"},
		"no filter":          {"status", "Seccomp:\t2\nSeccomp_filters:\t1", "Seccomp:\t0\nSeccomp_filters:\t0", "seccomp mode 0 with 0 filter"},
		"new privileges":     {"status", "NoNewPrivs:\t1", "NoNewPrivs:\t0", "no_new_privs false"},
		"programs in /tmp":   {"mountinfo", "/tmp rw,nosuid,nodev,noexec", "/tmp rw,nosuid,nodev", "mount         /tmp rw,nosuid,nodev,size"},
		"a writable root":    {"mountinfo", "/ / ro", "/ / rw", "mount         / rw"},
		"a mount more":       {"mountinfo", "140 138", "200 138 0:1 / /host rw - ext4 /dev/sda rw\n140 138", "mount         /host rw"},
		"a device more":      {"mountinfo", "145 141", "201 141 0:6 /sda /dev/sda rw - devtmpfs devtmpfs rw\n145 141", "devices       /dev/null /dev/sda"},
		"a mask less":        {"mountinfo", "70 140 0:6 /null /proc/version rw,relatime - devtmpfs devtmpfs rw\n", "", "bare          /proc/version"},
		"a writable sysctl":  {"mountinfo", "/proc/sys ro,", "/proc/sys rw,", "bare          /proc/sys"},
		"a variable more":    {"environ", "HOME", "SECRET", "environment   PATH SECRET"},
		"cores":              {"limits", "Max core file size 1 1", "Max core file size 0 unlimited", "rlimit        CORE 0, at most unlimited"},
		"more locked memory": {"limits", "Max locked memory 65536 65536", "Max locked memory 1 8388608", "MEMLOCK 1, at most 8388608"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for file, text := range whole {
				files[file] = text
			}
			files[weak.file] = strings.Replace(files[weak.file], weak.from, weak.to, 1)
			if text := printed(t, files); !strings.Contains(text, weak.want) {
				t.Errorf("no %q in\n%s", weak.want, text)
			}
		})
	}
}

func TestNamespacesOfAnOrdinaryProcess(t *testing.T) {
	t.Parallel()
	var r Report
	if err := r.readNamespaces("/proc/self", os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if n := len(r.names(OfHost)); n < 7 || n != len(r.Namespaces) {
		t.Errorf("a process that shares all with the host has %+v", r.Namespaces)
	}
}
