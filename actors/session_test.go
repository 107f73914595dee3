package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/fake"
)

func TestSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			_ = g.Print(1, "hello\n")
			_ = g.Print(2, "warn\n")
			time.Sleep(250 * time.Millisecond)
			g.Box().Count(func(u *runtime.Usage) { u.CPU += 120 * time.Millisecond; u.MemoryPeak = 30 << 20 })
			_ = g.Done("42", "a note")
			_ = g.Exit(0)
		}}, nil)
		defer b.close()
		synctest.Wait()
		r := b.run("x")
		want(t, "status", r.Status, StatusSuccess)
		want(t, "stdout", r.Stdout, "hello\n")
		want(t, "stderr", r.Stderr, "warn\n")
		want(t, "bytes", r.StdoutBytes, 6)
		want(t, "value", *r.Value, "42")
		want(t, "exit", *r.ExitCode, 0)
		want(t, "notes", strings.Join(r.Notes, ""), "a note")
		rc := r.Receipt
		want(t, "id", rc.RequestID, "r1")
		want(t, "pool", rc.Pool, "hit")
		want(t, "run", rc.RunMS, 250)
		want(t, "cpu", rc.CPUMS, 120)
		want(t, "peak", rc.PeakBytes, 30<<20)
		if rc.Sandbox == "" || rc.Sandbox != b.rt.Booted()[0] {
			t.Errorf("sandbox %q, the first one was %q", rc.Sandbox, b.rt.Booted()[0])
		}
		synctest.Wait()
		want(t, "single use: booted", len(b.rt.Booted()), 3)
		want(t, "live", len(b.rt.Live()), 2)
	})
}

// Every way in which code may end by itself.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	oom := func(g *fake.Guest, n int64) { g.Box().Count(func(u *runtime.Usage) { u.OOMKills += n }) }
	for name, c := range map[string]struct {
		run   func(g *fake.Guest)
		check func(t *testing.T, r Result)
	}{
		"exception": {func(g *fake.Guest) {
			_ = g.Print(1, "step 1 done\n")
			_ = g.Raise("ValueError", "boom", "Traceback …")
			_ = g.Exit(1)
		}, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusError, "ValueError", "boom")
			want(t, "traceback", r.Error.Traceback, "Traceback …")
			want(t, "stdout", r.Stdout, "step 1 done\n")
			want(t, "exit", *r.ExitCode, 1)
		}},
		"exit status": {func(g *fake.Guest) { _ = g.Done(""); _ = g.Exit(3) }, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusError, "SystemExit", "exit status 3")
			want(t, "exit", *r.ExitCode, 3)
		}},
		"os._exit(0) without a done frame": {func(g *fake.Guest) { _ = g.Exit(0) }, func(t *testing.T, r Result) {
			t.Helper()
			want(t, "status", r.Status, StatusSuccess)
		}},
		"segfault": {func(g *fake.Guest) { _ = g.Print(1, "x"); _ = g.Signal(11) }, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusError, "Signal", "SIGSEGV")
			want(t, "stdout", r.Stdout, "x")
			want(t, "exit", *r.ExitCode, 139)
			want(t, "notes", len(r.Notes), 0)
		}},
		"own SIGKILL is no OOM": {func(g *fake.Guest) { _ = g.Signal(9) }, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusError, "SIGKILL")
		}},
		"unknown signal": {func(g *fake.Guest) { _ = g.Signal(4000) }, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusError, "signal 4000")
		}},
		"out of memory": {func(g *fake.Guest) { _ = g.Print(1, "start\n"); oom(g, 1); _ = g.Signal(9) }, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusOOM, "OutOfMemory", "memory limit 512 MiB exceeded")
			want(t, "stdout", r.Stdout, "start\n")
		}},
		"out of memory, runner included": {func(g *fake.Guest) { oom(g, 2) }, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusOOM, "memory limit")
		}},
		"only a child out of memory": {func(g *fake.Guest) { oom(g, 1); _ = g.Done(""); _ = g.Exit(0) }, func(t *testing.T, r Result) {
			t.Helper()
			want(t, "status", r.Status, StatusSuccess)
			if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "memory limit 512 MiB") {
				t.Errorf("notes %q", r.Notes)
			}
		}},
		"child out of memory, then a crash": {func(g *fake.Guest) { oom(g, 1); _ = g.Signal(11) }, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusError, "SIGSEGV")
			want(t, "notes", len(r.Notes), 1)
		}},
		"killed from outside": {func(g *fake.Guest) { _ = g.Print(1, "x"); g.Box().Kill() }, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusKilled, "ended from outside")
			want(t, "stdout", r.Stdout, "x")
		}},
		"runner ended it": {func(g *fake.Guest) {
			_ = g.Send("exit", map[string]any{"signal": 9, "reason": "the code wrote a frame of its own"})
		}, func(t *testing.T, r Result) {
			t.Helper()
			wantError(t, r, StatusKilled, "a frame of its own")
		}},
		"bytes that are no UTF-8": {func(g *fake.Guest) {
			_ = g.Print(1, "a\xffb")
			_ = g.Raw([]byte("{\"t\":\"out\",\"fd\":1,\"d\":\"\\ud800\"}\n"))
			_ = g.Done("")
			_ = g.Exit(0)
		}, func(t *testing.T, r Result) {
			t.Helper()
			want(t, "stdout", r.Stdout, "a\ufffdb\ufffd")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, &fake.Runtime{Run: c.run, BootFunc: nil}, nil)
				defer b.close()
				synctest.Wait()
				c.check(t, b.run("x"))
			})
		})
	}
}

// What was counted while the sandbox booted is not the run's.
func TestCountsAreDifferences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := runtime.Usage{CPU: time.Second, OOMKills: 7}
		b := start(t, &fake.Runtime{UsageFunc: func(*fake.Sandbox) (runtime.Usage, error) { return u, nil }, Run: func(g *fake.Guest) {
			_ = g.Signal(9)
		}}, nil)
		defer b.close()
		synctest.Wait()
		r := b.run("x")
		wantError(t, r, StatusError, "SIGKILL")
		want(t, "cpu", r.Receipt.CPUMS, 0)
	})
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var box *fake.Sandbox
		b := start(t, &fake.Runtime{
			Run:      func(g *fake.Guest) { _ = g.Print(1, "before\n"); g.Hang() },
			ThawFunc: func(_ context.Context, s *fake.Sandbox) error { box = s; return nil },
		}, nil)
		defer b.close()
		synctest.Wait()
		began := time.Now()
		r := b.run("x")
		wantError(t, r, StatusTimeout, "Timeout", "30 s", "up to 120 seconds")
		want(t, "stdout", r.Stdout, "before\n")
		want(t, "took", time.Since(began), 30*time.Second)
		want(t, "killed before the answer", isClosed(box.Done()), true)
		r = b.runAs(Request{Timeout: 120 * time.Second})
		wantError(t, r, StatusTimeout, "120 s", "--max-timeout")
		r = b.runAs(Request{Timeout: 1500 * time.Millisecond})
		wantError(t, r, StatusTimeout, "1.5 s")
	})
}

// A timeout beyond the maximum is refused in so many words, one up to it is kept.
func TestTimeoutRange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			time.Sleep(33 * time.Second)
			_ = g.Print(1, "late\n")
			_ = g.Exit(0)
		}}, nil)
		defer b.close()
		want(t, "45 s", b.runAs(Request{Timeout: 45 * time.Second}).Stdout, "late\n")
		wantError(t, b.runAs(Request{Timeout: 121 * time.Second}), StatusRejected, "at most 120 s", "121 s")
		wantError(t, b.runAs(Request{Timeout: -1}), StatusRejected, "greater than 0")
		wantError(t, b.runAs(Request{Profile: "gpu"}), StatusRejected, `"gpu"`, "default")
		wantError(t, b.runAs(Request{Code: strings.Repeat("#", CodeMax+1)}), StatusRejected, "bytes")
	})
}

// The time that a sandbox was frozen in the pool counts for nothing.
func TestFrozenTimeDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			time.Sleep(29 * time.Second)
			_ = g.Exit(0)
		}}, nil)
		defer b.close()
		time.Sleep(10 * time.Minute)
		r := b.run("x")
		want(t, "status", r.Status, StatusSuccess)
		want(t, "run", r.Receipt.RunMS, 29000)
		want(t, "pool", r.Receipt.Pool, "hit")
	})
}

// The timeout covers a sandbox that does not even read its run frame.
func TestTimeoutCoversBlockedWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{ThawFunc: nil, Run: func(g *fake.Guest) { g.Hang() }}, nil)
		defer b.close()
		for i := range 200 { // answers that nobody reads: the writer blocks
			_ = i
		}
		r := b.runAs(Request{Code: strings.Repeat("x", 1<<20), Timeout: time.Second})
		wantError(t, r, StatusTimeout)
	})
}

func TestEveryLineHasTheRequestID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			_ = g.Print(1, "the secret output")
			_ = g.Exit(0)
		}}, nil)
		defer b.close()
		synctest.Wait()
		b.runAs(Request{ID: "req-7", Code: "the secret code"})
		synctest.Wait()
		seen := map[string]int{}
		infos := 0
		for _, l := range b.log.lines(t) {
			if s := fmt.Sprint(l); strings.Contains(s, "secret") {
				t.Errorf("log line tells the code or its output: %v", s)
			}
			if l["request"] == "req-7" {
				seen[fmt.Sprint(l["event"])]++
			}
			if l["level"] == "info" {
				infos++
			}
		}
		want(t, "events", fmt.Sprint(seen), "map[destroy:1 done:1 lease:1 thaw:1]")
		want(t, "info lines", infos, 1)
	})
}

// Taking a sandbox apart waits for the answer to leave, but not for a client that does not read.
func TestAnswerLeavesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &fake.Runtime{}
		b := start(t, rt, nil)
		defer b.close()
		synctest.Wait()
		for _, read := range []bool{true, false} {
			box, sent := rt.Live()[0], make(chan struct{})
			r := b.runAs(Request{ID: "r", Code: "x", Sent: sent})
			want(t, "sandbox", r.Receipt.Sandbox, box.ID())
			time.Sleep(sentMax - time.Millisecond)
			want(t, "destroyed before the answer has left", box.Destroys(), 0)
			if read {
				close(sent)
			} else {
				time.Sleep(2 * time.Millisecond)
			}
			synctest.Wait()
			want(t, "destroyed", box.Destroys(), 1)
		}
	})
}
