package ctrdtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Process is a running process as /proc has it.
type Process struct {
	PID, Parent int
	State       byte
	Args        []string
}

func (p Process) String() string {
	return fmt.Sprintf("%d %c %.100s", p.PID, p.State, strings.Join(p.Args, " "))
}

// Is tells whether the program's base name is name.
func (p Process) Is(name string) bool { return len(p.Args) > 0 && filepath.Base(p.Args[0]) == name }

// Table is every process of the machine, zombies without arguments included.
func Table() ([]Process, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, dir := range dirs {
		stat, err1 := os.ReadFile(filepath.Join(dir, "stat"))
		line, err2 := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err1 != nil || err2 != nil {
			continue // has ended
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if err != nil || len(fields) < 2 {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		p := Process{PID: pid, Parent: parent, State: fields[0][0]}
		if len(line) > 0 {
			p.Args = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		}
		all = append(all, p)
	}
	return all, nil
}

// Tree is the keeper's processes: the keeper, and everything below it.
func (e *Env) Tree() ([]Process, error) {
	all, err := Table()
	if err != nil {
		return nil, err
	}
	keeper, _ := e.Keeper()
	in := map[int]bool{}
	if keeper.PID != 0 {
		in[keeper.PID] = true
	}
	rk := "--state-dir=" + filepath.Join(e.StateDir, "rk")
	var tree []Process
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			// An orphan is known by its arguments; its children by it.
			if !in[p.PID] && (in[p.Parent] || slices.Contains(p.Args, rk)) {
				in[p.PID], grew = true, true
			}
		}
	}
	for _, p := range all {
		if in[p.PID] {
			tree = append(tree, p)
		}
	}
	return tree, nil
}
