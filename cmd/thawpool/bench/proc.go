package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc's times: USER_HZ, which is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Process is what /proc/PID/stat says of a process.
type Process struct {
	PID, Parent int
	Name        string        // of the program, at most 15 bytes
	CPU         time.Duration // its own, and of all children that it has waited for
}

// Processes is every process of the machine by pid.
type Processes map[int]Process

// ReadProcesses looks at /proc.
func ReadProcesses() (Processes, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := Processes{}
	for _, name := range dirs {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		p, err := parseProcess(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[p.PID] = p
	}
	return all, nil
}

// parseProcess reads proc_pid_stat(5). The name may hold anything but a zero byte, brackets and spaces included.
func parseProcess(data []byte) (Process, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("no stat line: %.60q", data)
	}
	f := strings.Fields(string(data[end+1:])) // from field 3, the state, on
	if len(f) < 15 {
		return Process{}, fmt.Errorf("a stat line of %d fields", len(f)+2)
	}
	n := make([]int64, 0, 6)
	for _, s := range append([]string{strings.TrimSpace(string(data[:open])), f[1]}, f[11:15]...) { // pid, ppid, utime … cstime
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return Process{}, err
		}
		n = append(n, v)
	}
	return Process{PID: int(n[0]), Parent: int(n[1]), Name: string(data[open+1 : end]), CPU: time.Duration(n[2]+n[3]+n[4]+n[5]) * tick}, nil
}

// Top is the highest ancestor of pid below the processes named in stop and below the first process.
func (all Processes) Top(pid int, stop ...int) int {
	for {
		parent := all[pid].Parent
		if parent <= 1 {
			return pid
		}
		for _, s := range stop {
			if parent == s {
				return pid
			}
		}
		pid = parent
	}
}

// TreeCPU is what the trees under roots have used so far, of children that they have waited for too. A process counts once.
func (all Processes) TreeCPU(roots ...int) time.Duration {
	children := map[int][]int{}
	for pid, p := range all {
		children[p.Parent] = append(children[p.Parent], pid)
	}
	seen := map[int]bool{}
	var sum time.Duration
	var add func(pid int)
	add = func(pid int) {
		if seen[pid] {
			return
		}
		seen[pid] = true
		sum += all[pid].CPU
		for _, c := range children[pid] {
			add(c)
		}
	}
	for _, r := range roots {
		add(r)
	}
	return sum
}

// MachineBusy is the time that all processors together have worked since the start of the machine.
func MachineBusy() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseBusy(string(data))
}

// parseBusy adds user, nice, system, irq and softirq of proc_stat(5): not idle, not waiting, not stolen; guest time is in
// user already.
func parseBusy(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		return 0, fmt.Errorf("no cpu line in /proc/stat: %.60q", line)
	}
	var sum int64
	for _, i := range []int{1, 2, 3, 6, 7} {
		v, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return time.Duration(sum) * tick, nil
}

// PSS is the proportional share of memory of processes, in bytes: what each has alone, and its part of what it shares.
// Processes that have ended count nothing.
func PSS(pids ...int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		n, err := parsePSS(string(data))
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		sum += n
	}
	return sum, nil
}

func parsePSS(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("smaps_rollup has no Pss line")
}
