package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/upstream/fakeup"
)

// hostVariable makes the test binary a host: it connects to the scripted server, has it start a child of its own, tells
// the three pids and waits.
const hostVariable = "UPSTREAM_TEST_HOST"

func host() {
	command, env := fakeup.Command(fakeup.Script{IgnoreTerm: true})
	var g Guard
	c, err := Dial(context.Background(), Config{Name: "up", Kind: KindStdio, Command: command, Env: env, Log: zerolog.Nop(), Guard: &g})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	raw, err := c.CallTool(context.Background(), "spawn", nil)
	var r struct{ StructuredContent struct{ PID int } }
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println(c.PID(), r.StructuredContent.PID, g.cmd.Process.Pid)
	select {}
}

func TestNothingOutlivesAKilledThawpool(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatalf("the host says %q", line)
		}
		awaitNoProcess(t, pid)
	}
}
