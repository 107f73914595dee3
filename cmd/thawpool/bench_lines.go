package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/cmd/thawpool/bench"
)

// lineClient speaks MCP in plain lines, so that a client library's own work is not measured with the front's.
type lineClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu      sync.Mutex // guards what follows, and writing
	next    int
	waiting map[int]chan lineAnswer
	dead    error
}

// lineAnswer is as much of an answer as says that it is one.
type lineAnswer struct {
	ID     int `json:"id"`
	Result struct {
		IsError    bool `json:"isError"`
		Structured struct {
			Status  actors.Status  `json:"status"`
			Receipt actors.Receipt `json:"receipt"`
		} `json:"structuredContent"`
	} `json:"result"`
	Error json.RawMessage `json:"error"`
	err   error
}

// startLines runs this binary with args, and does MCP's handshake.
func startLines(args ...string) (*lineClient, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &lineClient{cmd: exec.Command(self, args...), waiting: map[int]chan lineAnswer{}}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.read(out) // ends with the process, which close waits for
	_, err = c.ask(context.Background(), "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "bench", "version": version},
	})
	if err == nil {
		_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *lineClient) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := r.ReadSlice('\n')
		var a lineAnswer
		if err == nil {
			err = json.Unmarshal(line, &a)
		}
		c.mu.Lock()
		if err != nil {
			c.dead = fmt.Errorf("the server's answers end: %w", err)
			for _, ch := range c.waiting {
				ch <- lineAnswer{err: c.dead}
			}
			c.mu.Unlock()
			return
		}
		if ch := c.waiting[a.ID]; ch != nil {
			delete(c.waiting, a.ID)
			ch <- a
		}
		c.mu.Unlock()
	}
}

// ask sends a request and waits for its answer.
func (c *lineClient) ask(ctx context.Context, method string, params any) (lineAnswer, error) {
	ch := make(chan lineAnswer, 1)
	c.mu.Lock()
	err := c.dead
	if err == nil {
		c.next++
		c.waiting[c.next] = ch
		var line []byte
		line, err = json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.next, "method": method, "params": params})
		if err == nil {
			_, err = c.in.Write(append(line, '\n'))
		}
	}
	c.mu.Unlock()
	if err != nil {
		return lineAnswer{}, err
	}
	select {
	case a := <-ch:
		if a.err == nil && a.Error != nil {
			a.err = fmt.Errorf("%s: %s", method, a.Error)
		}
		return a, a.err
	case <-ctx.Done():
		return lineAnswer{}, context.Cause(ctx)
	}
}

func (c *lineClient) sample(ctx context.Context, code string) bench.Sample {
	a, err := c.ask(ctx, "tools/call", map[string]any{"name": "run_python", "arguments": map[string]string{"code": code}})
	if err == nil && a.Result.Structured.Status != actors.StatusSuccess {
		err = fmt.Errorf("a call ended as %q", a.Result.Structured.Status)
	}
	return bench.Sample{Pool: a.Result.Structured.Receipt.Pool, Err: err}
}

// close ends the server by the end of its input.
func (c *lineClient) close() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

func (b *benchRun) frontRow(ctx context.Context) (bench.Row, error) {
	b.say("the front alone")
	c, err := startLines(benchFrontName)
	if err != nil {
		return bench.Row{}, err
	}
	row := bench.Row{Name: "front"}
	l := bench.Load{Concurrency: frontCallers, Calls: frontCalls, Warmup: frontWarmup}
	progress, end := b.progress(l)
	before, err := bench.ReadProcesses()
	if err != nil {
		return row, err
	}
	l.Progress = progress
	row.Samples = bench.Run(ctx, l, func(ctx context.Context, _ int) bench.Sample { return c.sample(ctx, b.o.code) })
	end()
	row.Summary = bench.Summarize(row.Samples)
	after, err := bench.ReadProcesses()
	if n := frontWarmup + len(row.Samples); err == nil && n > 0 {
		cost := func(pid int) float64 { return perLife(after[pid].CPU-before[pid].CPU, n) * 1000 }
		b.note("the front alone, %d callers: CPU of a call %.0f µs in the server, %.0f µs in the client", frontCallers, cost(c.cmd.Process.Pid), cost(os.Getpid()))
	}
	return row, errors.Join(err, c.close())
}
