package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/actors"
)

// demoStep is one call of the demonstration and what it shows.
type demoStep struct {
	title string
	args  map[string]any
}

var demoSteps = []demoStep{
	{"plain output", map[string]any{"code": "import sys, platform\nprint('Python', platform.python_version(), 'says', 6 * 7)"}},
	{"a trailing expression, top-level await", map[string]any{
		"code": "import asyncio\nawait asyncio.sleep(0.01)\n[n * n for n in range(8)]"}},
	{"an exception, with what was printed before", map[string]any{"code": "print('step 1 done')\nx = 0\nprint(1 / x)"}},
	{"a timeout of one second", map[string]any{"code": "print('working', flush=True)\nwhile True: pass", "timeout": 1}},
	{"an attempt to reach the network", map[string]any{
		"code": "import socket\nsocket.create_connection(('1.1.1.1', 53), 2)"}},
	{"an attempt to write outside", map[string]any{
		"code": "import os\nfor path in ('/etc/passwd', '/usr/evil', '/proc/sys/kernel/hostname'):\n" +
			"    try:\n        open(path, 'w')\n    except OSError as e:\n        print(path, '->', e.strerror)\n" +
			"print('uid', os.getuid(), '- pid', os.getpid(), '-', len([p for p in os.listdir('/proc') if p.isdigit()]), 'processes visible')"}},
}

func newDemoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Act as an agent: start a server and show calls with their receipts",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

// demoWarmup bounds how long the first call may take: on a new machine it makes the image and starts the daemon.
const demoWarmup = 5 * time.Minute

func runDemo(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, demoWarmup)
	defer cancel()
	fmt.Fprintln(out, "An MCP client starts `thawpool serve` and waits for the pool (the very first time it makes the image).")
	args := []string{"--pool-size", "4", "--queue-wait", "3m", "--log-level", "warn"}
	steps := demoSteps
	servers, err := newDemoServers(ctx)
	if err != nil {
		fmt.Fprintf(out, "Without the part on other servers, which could not be installed (Debian's python3-venv and PyPI are needed): %v\n", err)
	} else {
		defer servers.close()
		args, steps = append(args, "--servers-config", servers.config), append(slices.Clone(steps), servers.step())
	}
	began := time.Now()
	a, err := startAgent(ctx, os.Stderr, args...)
	if err != nil {
		return err
	}
	if _, _, err := a.run(ctx, map[string]any{"code": "pass"}); err != nil {
		return closeAfter(a, err)
	}
	fmt.Fprintf(out, "First answer after %.1f s.\n", time.Since(began).Seconds())
	for _, s := range steps {
		think()
		if err := a.show(ctx, out, s); err != nil {
			return closeAfter(a, err)
		}
	}
	think()
	if err := a.showParallel(ctx, out, 10); err != nil {
		return closeAfter(a, err)
	}
	return a.close()
}

// think is the pause that a model makes between calls, in which the pool refills.
func think() { time.Sleep(time.Second) }

// closeAfter ends the server and keeps the first error.
func closeAfter(a *agent, err error) error {
	_ = a.close()
	return err
}

func (a *agent) show(ctx context.Context, out io.Writer, s demoStep) error {
	fmt.Fprintf(out, "\n── %s\n%s\n", s.title, indent(s.args["code"].(string), "  › "))
	began := time.Now()
	res, text, err := a.run(ctx, s.args)
	if err != nil {
		return fmt.Errorf("%s: %w", s.title, err)
	}
	fmt.Fprintf(out, "%s\n%s\n", indent(text, "    "), receiptLine(res, time.Since(began)))
	for _, c := range res.Receipt.Calls {
		fmt.Fprintf(out, "    [called %s %s · %.1f ms · %d bytes in · %d out · %s]\n", c.Server, c.Tool, c.MS, c.BytesIn, c.BytesOut, c.Outcome)
	}
	return nil
}

// showParallel sends n calls at once and checks that each got its own answer.
func (a *agent) showParallel(ctx context.Context, out io.Writer, n int) error {
	fmt.Fprintf(out, "\n── %d calls at once, pool of 4: each in a sandbox of its own\n", n)
	lines, errs := make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			began := time.Now()
			res, _, err := a.run(ctx, map[string]any{"code": fmt.Sprintf("print(%d * 11)", i)})
			if err == nil && strings.TrimSpace(res.Stdout) != fmt.Sprint(i*11) {
				err = fmt.Errorf("call %d answered %q", i, res.Stdout)
			}
			lines[i], errs[i] = fmt.Sprintf("    %2d → %s %s", i, strings.TrimSpace(res.Stdout), receiptLine(res, time.Since(began))), err
		})
	}
	wg.Wait()
	for i := range n {
		if errs[i] != nil {
			return errs[i]
		}
		fmt.Fprintln(out, lines[i])
	}
	return nil
}

func receiptLine(res actors.Result, total time.Duration) string {
	r := res.Receipt
	return fmt.Sprintf("    [%s · %s · queue %.1f ms · thaw %.2f ms · run %.2f ms · cpu %.1f ms · peak %.0f MiB · seen by the client %.2f ms]",
		res.Status, r.Pool, r.QueueMS, r.ThawMS, r.RunMS, r.CPUMS, float64(r.PeakBytes)/(1<<20), float64(total.Microseconds())/1000)
}

func indent(s, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+prefix)
}
