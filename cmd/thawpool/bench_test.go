package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/thawpool/thawpool/cmd/thawpool/bench"
)

func parsedBench(t *testing.T, args ...string) (*benchOptions, error) {
	t.Helper()
	o := &benchOptions{}
	f := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	o.addFlags(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	return o, o.validate(f)
}

func TestBenchOptions(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--concurrency", "0"}, {"--rate", "-1"}, {"--rate", "2", "--concurrency", "3"}, {"--calls", "0"}, {"--duration", "-1s"},
		{"--code", "1", "--file", "x"}, {"--upstream", "-1"}, {"--rounds", "0"}, {"--life", "1ms"}, {"--idle", "-1"},
		{"--against", "docker"}, {"--boot-time", "0"}, {"--output-bytes", "many"},
	} {
		if _, err := parsedBench(t, args...); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(args[0], "--")) && args[0] != "--code" {
			t.Errorf("%v: %v", args, err)
		}
	}
	o, err := parsedBench(t, "--duration", "3s")
	if err != nil || o.calls != 0 {
		t.Errorf("a duration alone must bound the calls: %+v, %v", o, err)
	}
	if o, err = parsedBench(t, "--duration", "3s", "--calls", "9"); err != nil || o.calls != 9 {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestBenchProgram(t *testing.T) {
	t.Parallel()
	o := benchOptions{code: "x = 1", output: 200, upstream: 3}
	want := "x = 1\nprint(('x' * 79 + '\\n') * 2 + 'x' * 40, end='')\nfor _ in range(3):\n    assert (await mcp_bench.echo(text='x' * 64)) == 'x' * 64"
	if got := o.program(); got != want {
		t.Errorf("%s", got)
	}
}

func TestBenchSimulate(t *testing.T) {
	t.Parallel()
	a := newApp()
	a.cfg.Pool.Refill = 2 // the default depends on the machine
	o, err := parsedBench(t)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := a.benchSimulate(&out, o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"5.0 calls a second of at most 10.0", "steady   3000  100.00 %", "bursts of 24", "night and morning", "Recommended: --pool-size"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestBootLog(t *testing.T) {
	t.Parallel()
	l := &bootLog{}
	for _, part := range []string{
		`{"level":"debug","profile":"default","event":"bo`, "ot\",\"sandbox\":\"tp-1-0-1\",\"took_ms\":123.5}\n{\"event\":\"thaw\",\"took_ms\":1}\n",
		`{"event":"boot","sandbox":"tp-1-0-2","took_ms":99}` + "\n",
	} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := l.take(); len(got) != 2 || got[0] != 123.5 || got[1] != 99 {
		t.Error(got)
	}
	if len(l.take()) != 0 {
		t.Error("boots were given twice")
	}
}

func TestGroupNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"5:memory:/a/tp-1f-0-7\n4:freezer:/b/tp-1f-0-7\n0::/\n":            "/b/tp-1f-0-7",
		"0::/user.slice/x/sandboxes/tp-1f-0-12\n":                          "/user.slice/x/sandboxes/tp-1f-0-12",
		"4:freezer:/b/tp-1f-1-7\n":                                         "",
		"4:freezer:/\n":                                                    "",
		"6:cpu,cpuacct:/c/tp-1f-0-3\n3:devices,freezer:/d/tp-1f-0-3\njunk": "/d/tp-1f-0-3",
	} {
		if got := groupNamed(text, "tp-1f-0-"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if _, err := findHerd("other"); err == nil {
		t.Error("a name of another form was taken")
	}
}

func TestCommandText(t *testing.T) {
	t.Parallel()
	if got := commandText([]string{"/x/thawpool", "bench", "--code", "print('a')", ""}); got != `thawpool bench --code 'print('\''a'\'')' ''` {
		t.Error(got)
	}
	if got := perLife(3*time.Second, 20); got != 150 {
		t.Error(got)
	}
	if perLife(time.Second, 0) != 0 {
		t.Error("no lives have a cost")
	}
}

func TestFrontTarget(t *testing.T) {
	t.Parallel()
	got := frontTarget(bench.Row{Summary: bench.Summary{Throughput: 5001}})
	if len(got) != 1 || !got[0].Met || got[0].Measured != 5001 {
		t.Errorf("%+v", got)
	}
}
