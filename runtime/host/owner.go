package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Owner names one process for ever: a pid alone is reused, its start time is not, and a reboot changes the boot id. It
// is written on everything a process makes, so that another can tell whether the maker still lives. It is meaningful
// only in the pid namespace it was made in.
type Owner struct {
	BootID string // /proc/sys/kernel/random/boot_id
	PID    int
	Start  uint64 // start time in clock ticks since boot, field 22 of /proc/PID/stat
}

// LabelOwner is on whatever a process makes in containerd for as long as it lives, and its Owner is the value.
const LabelOwner = "thawpool.owner"

// Self is this process.
func Self() (Owner, error) {
	return ownerOf("", os.Getpid())
}

// OwnerOf is the running process pid.
func OwnerOf(pid int) (Owner, error) {
	return ownerOf("", pid)
}

func ownerOf(root string, pid int) (Owner, error) {
	boot, err := os.ReadFile(filepath.Join(root, "/proc/sys/kernel/random/boot_id"))
	if err != nil {
		return Owner{}, fmt.Errorf("read boot id: %w", err)
	}
	start, _, err := processStart(root, pid)
	if err != nil {
		return Owner{}, err
	}
	return Owner{BootID: strings.TrimSpace(string(boot)), PID: pid, Start: start}, nil
}

// Alive tells whether that very process still runs. One that has exited and only waits to be reaped does not.
func (o Owner) Alive() bool { return o.alive("") }

func (o Owner) alive(root string) bool {
	now, err := ownerOf(root, o.PID)
	if err != nil || now != o {
		return false
	}
	_, state, err := processStart(root, o.PID)
	return err == nil && state != 'Z' && state != 'X'
}

// String is the form that labels carry and ParseOwner reads: BOOT-ID.PID.START.
func (o Owner) String() string { return fmt.Sprintf("%s.%d.%d", o.BootID, o.PID, o.Start) }

// ParseOwner reads what String wrote.
func ParseOwner(s string) (Owner, error) {
	bad := fmt.Errorf("owner %q: want BOOT-ID.PID.START", s)
	parts := strings.Split(s, ".")
	if len(parts) != 3 || parts[0] == "" {
		return Owner{}, bad
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil || pid <= 0 {
		return Owner{}, bad
	}
	start, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil {
		return Owner{}, bad
	}
	return Owner{BootID: parts[0], PID: pid, Start: start}, nil
}

// Stopped tells whether a process was stopped by a signal or a debugger, and so does nothing until it is let go on.
func Stopped(pid int) bool {
	_, state, err := processStart("/", pid)
	return err == nil && (state == 'T' || state == 't')
}

// Zombie tells whether a process has ended and only waits to be reaped.
func Zombie(pid int) bool {
	_, state, err := processStart("/", pid)
	return err == nil && (state == 'Z' || state == 'X')
}

// processStart reads a process's start time and state letter. The command name in the second field may hold spaces and
// brackets, so fields count from its last bracket.
func processStart(root string, pid int) (start uint64, state byte, err error) {
	data, err := os.ReadFile(filepath.Join(root, "/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, fmt.Errorf("process %d: %w", pid, err)
	}
	_, rest, ok := bytes.Cut(data[max(0, bytes.LastIndexByte(data, ')')):], []byte(" "))
	fields := bytes.Fields(rest)
	if !ok || len(fields) < 20 {
		return 0, 0, fmt.Errorf("process %d: %w", pid, errors.New("unreadable stat"))
	}
	start, err = strconv.ParseUint(string(fields[19]), 10, 64) // field 22; the state is field 3
	if err != nil {
		return 0, 0, fmt.Errorf("process %d: start time: %w", pid, err)
	}
	return start, fields[0][0], nil
}
