package upstream

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestSweepKillsOnlyWhatADeadOwnerLeft(t *testing.T) {
	t.Parallel()
	start := func(mark string) *exec.Cmd {
		cmd := exec.Command("sleep", "600")
		cmd.Env = []string{MarkVariable + "=" + mark}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	parts := strings.Split(newMark(), ".")
	mine := start(strings.Join(parts, "."))
	foreign := start(strings.Join([]string{"1", parts[1], "1", "1"}, ".")) // another pid namespace
	parts[2] += "0"
	orphan := start(strings.Join(parts, "."))
	if n := Sweep(t.Context()); n < 1 {
		t.Errorf("found %d", n)
	}
	if err := orphan.Wait(); err == nil || orphan.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("orphan: %v", err)
	}
	for _, cmd := range []*exec.Cmd{mine, foreign} {
		if stat := readFileOr("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat"); !strings.Contains(stat, ") S ") {
			t.Errorf("gone: %s", stat)
		}
	}
}

func TestGuardKillsGroupsOfADeadThawpool(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Fatal(err)
	}
	var g Guard
	var groups []*exec.Cmd
	for range 3 {
		cmd := exec.Command("sleep", "600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		groups = append(groups, cmd)
	}
	g.add(groups[0].Process.Pid)
	g.add(groups[1].Process.Pid)
	_ = g.cmd.Process.Kill() // another takes over, with the whole list
	_ = g.cmd.Wait()
	g.add(groups[2].Process.Pid)
	g.remove(groups[1].Process.Pid)
	g.stdin.Close() // as the kernel does when thawpool dies
	for _, i := range []int{0, 2} {
		if err := groups[i].Wait(); err == nil {
			t.Errorf("group %d ended by itself", i)
		}
	}
	if stat := readFileOr("/proc/" + strconv.Itoa(groups[1].Process.Pid) + "/stat"); !strings.Contains(stat, ") S ") {
		t.Errorf("a group that was taken off the list is gone: %s", stat)
	}
	g.Close()
}

func BenchmarkKillMark(b *testing.B) {
	for b.Loop() {
		killMark("none")
	}
}
