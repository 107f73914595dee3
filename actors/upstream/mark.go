package upstream

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// MarkVariable is in the environment of every child. It says whose it is, so that what left its process group can still
// be found. config.EnvDepth, beside it, tells a thawpool which is started by a server that it is below another one.
const MarkVariable = "THAWPOOL_UPSTREAM"

// owner identifies this process among all that ran on this machine since it booted: pid namespace, pid, start time.
// Pids of another namespace say nothing here, so they are told apart and left alone.
var owner = sync.OnceValue(func() string {
	return fmt.Sprintf("%d.%d.%s", pidNamespace(), os.Getpid(), startTime("self"))
})

var sequence atomic.Uint64

// newMark is the value of MarkVariable for one child.
func newMark() string { return fmt.Sprintf("%s.%d", owner(), sequence.Add(1)) }

func pidNamespace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// startTime is field 22 of /proc/PID/stat, in clock ticks since boot; "" when there is no such process.
func startTime(pid string) string {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	// The second field is the program's name in parentheses and may itself hold both.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// alive reports whether the process that made a mark still runs. Marks it cannot judge count as alive.
func alive(mark string) bool {
	parts := strings.Split(mark, ".")
	if len(parts) != 4 || parts[0] != strconv.FormatUint(pidNamespace(), 10) {
		return true
	}
	return startTime(parts[1]) == parts[2]
}

// Sweep kills processes of this user that a thawpool started as upstream servers and left behind when it was killed. It
// returns how many it found.
func Sweep(ctx context.Context) int {
	return killMarked(func(mark string) bool { return ctx.Err() == nil && !alive(mark) })
}

// killMark kills every process that still carries this mark, also those that left the group, until none is found.
func killMark(mark string) {
	for range 5 { // a process may fork while it is looked for; one that outruns five rounds is a bomb
		if killMarked(func(m string) bool { return m == mark }) == 0 {
			return
		}
	}
}

// killMarked kills every process of this user whose mark is wanted, and returns how many those were.
func killMarked(wanted func(mark string) bool) (n int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if mark := markOf(name); mark != "" && wanted(mark) && killIf(pid, wanted) {
			n++
		}
	}
	return n
}

func markOf(pid string) string {
	env, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		return "" // another user's, or gone
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(MarkVariable+"=")); ok {
			return string(v)
		}
	}
	return ""
}

// killIf kills pid if it still carries a wanted mark. The descriptor pins the process, so that a pid which was used
// again between look and kill is not hit.
func killIf(pid int, wanted func(mark string) bool) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if mark := markOf(strconv.Itoa(pid)); mark == "" || !wanted(mark) {
		return false
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}
