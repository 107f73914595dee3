// Command client is an MCP client for fresh machines: it starts the server that its arguments name, as an agent's host
// would, calls run_python in every way that must work there, and prints a line for each. Any other outcome is an error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/thawpool/thawpool/actors"
)

// patience bounds everything together: these machines are emulated, and the first start makes the image.
const patience = 20 * time.Minute

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1) //nolint:gocritic // the context ends with the process
	}
}

// step is one call and how it must end.
type step struct {
	name, code string
	timeout    float64
	status     actors.Status
	stdout     string
}

// steps go through the limits that the kernel keeps, so each shows that this machine's control groups work.
var steps = []step{
	{"output", "print(6 * 7)", 0, actors.StatusSuccess, "42\n"},
	{"await", "import asyncio\nawait asyncio.sleep(0.01)\nprint('slept')", 0, actors.StatusSuccess, "slept\n"},
	{"exception", "print('before')\n1 / 0", 0, actors.StatusError, "before\n"},
	{"timeout", "print('x', flush=True)\nwhile True: pass", 2, actors.StatusTimeout, "x\n"},
	{"memory limit", "print('a', flush=True)\nx = bytearray(2 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1", 0, actors.StatusOOM, "a\n"},
	{"process limit", manyProcesses, 60, actors.StatusSuccess, "refused\n"},
	{"isolation", isolation, 0, actors.StatusSuccess, "65534 refused\n"},
	{"after all that", "print('fresh')", 0, actors.StatusSuccess, "fresh\n"},
}

const manyProcesses = `
import os, signal
pids = []
try:
    for i in range(1000):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
    print('no limit')
except BlockingIOError:
    print('refused')
for pid in pids:
    os.kill(pid, 9)
`

const isolation = `
import os, socket
try:
    socket.create_connection(('127.0.0.1', 22), 2)
    print('connected')
except OSError:
    print(os.getuid(), 'refused')
`

func run(ctx context.Context, out io.Writer, argv []string) error {
	if len(argv) == 0 {
		return errors.New("give the server's command")
	}
	c := client.NewClient(transport.NewStdioWithOptions(argv[0], nil, argv[1:], transport.WithCommandStderrWriter(os.Stderr),
		transport.WithCommandFunc(func(_ context.Context, name string, _, args []string) (*exec.Cmd, error) {
			return exec.Command(name, args...), nil // with this process's own environment: what the host of an agent has
		})))
	if err := c.Start(ctx); err != nil {
		return err
	}
	err := talk(ctx, out, c)
	return errors.Join(err, c.Close())
}

func talk(ctx context.Context, out io.Writer, c *client.Client) error {
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil || len(tools.Tools) != 1 {
		return fmt.Errorf("tools %+v: %w", tools, err)
	}
	if err := awaitFrozen(ctx, out); err != nil {
		return err
	}
	for i, s := range steps {
		res, err := call(ctx, c, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if res.Status != s.status || res.Stdout != s.stdout {
			return fmt.Errorf("%s: %s, stdout %q, stderr %q, error %+v", s.name, res.Status, res.Stdout, res.Stderr, res.Error)
		}
		if i == 0 && res.Receipt.Pool != "hit" {
			return fmt.Errorf("%s: the pool was full and the receipt says %q", s.name, res.Receipt.Pool)
		}
		fmt.Fprintf(out, "  %-14s %-8s %-4s thaw %.1f ms, run %.1f ms, peak %d MiB\n", s.name, res.Status, res.Receipt.Pool,
			res.Receipt.ThawMS, res.Receipt.RunMS, res.Receipt.PeakBytes>>20)
	}
	return nil
}

func call(ctx context.Context, c *client.Client, s step) (res actors.Result, err error) {
	req := mcp.CallToolRequest{}
	args := map[string]any{"code": s.code}
	if s.timeout > 0 {
		args["timeout"] = s.timeout
	}
	req.Params.Name, req.Params.Arguments = "run_python", args
	answer, err := c.CallTool(ctx, req)
	if err != nil {
		return res, err
	}
	raw, err := json.Marshal(answer.StructuredContent)
	if err != nil {
		return res, err
	}
	return res, json.Unmarshal(raw, &res)
}

// awaitFrozen waits until the kernel says that at least one sandbox of this user is frozen and none runs: the pool is full.
func awaitFrozen(ctx context.Context, out io.Writer) error {
	pattern := fmt.Sprintf("/sys/fs/cgroup/user.slice/user-%d.slice/user@%[1]d.service/app.slice/thawpool-*.service/daemon/sandboxes/*/cgroup.events",
		os.Getuid())
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		frozen, running := 0, 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			switch {
			case err != nil || !strings.Contains(string(text), "populated 1"): // gone, or still empty
			case strings.Contains(string(text), "frozen 1"):
				frozen++
			default:
				running++
			}
		}
		if frozen > 0 && running == 0 {
			fmt.Fprintf(out, "  %d sandboxes ready, all frozen says the kernel\n", frozen)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("no sandbox gets ready: %d frozen, %d running in %s", frozen, running, pattern)
		}
	}
}
