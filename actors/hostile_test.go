package actors

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thawpool/thawpool/pool"
	"github.com/thawpool/thawpool/runtime/fake"
	"github.com/thawpool/thawpool/runtime/guest"
)

// Whatever a sandbox sends, its own run ends with an answer, and the next call works.
func TestHostileFrames(t *testing.T) {
	t.Parallel()
	line := func(s string) func(*fake.Guest) {
		return func(g *fake.Guest) {
			_ = g.Print(1, "before\n")
			_ = g.Raw([]byte(s + "\n"))
			g.Hang()
		}
	}
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, run := range map[string]func(*fake.Guest){
		"a result of its own making": line(`{"type":"result","ok":true,"id":1,"stdout":"FORGED"}`),
		"a call of its own making":   line(`{"type":"rpc","id":1,"server":"notallowed","tool":"x","args":{}}`),
		"an unknown kind":            line(`{"t":"shutdown"}`),
		"not JSON":                   line(`hello`),
		"empty line":                 line(``),
		"null":                       line(`null`),
		"not UTF-8":                  line("{\"t\":\"out\",\"fd\":1,\"d\":\"\xff\"}"),
		"another descriptor":         line(`{"t":"out","fd":3,"d":"x"}`),
		"both forms of output":       line(`{"t":"out","fd":1,"d":"x","b":"eA=="}`),
		"bad base64":                 line(`{"t":"out","fd":1,"b":"*"}`),
		"ready again":                line(`{"t":"ready","v":1,"python":"3"}`),
		"done twice":                 line(`{"t":"done"}` + "\n" + `{"t":"done"}`),
		"exit with code and signal":  line(`{"t":"exit","code":0,"signal":9}`),
		"call without an id":         line(`{"t":"call","verb":"tools.call","args":1}`),
		"call with a negative id":    line(`{"t":"call","id":-1,"verb":"tools.call","args":1}`),
		"deep nesting in a call":     line(`{"t":"call","id":1,"verb":"tools.call","args":` + deep + `}`),
		"deep nesting in a value":    line(`{"t":"done","value":` + deep + `}`),
		"two kinds":                  line(`{"t":"out","t":"exit","code":0}`),
		"a frame without an end": func(g *fake.Guest) {
			_ = g.Print(1, "before\n")
			chunk := bytes.Repeat([]byte("A"), 1<<20)
			for g.Raw(chunk) == nil {
			}
		},
		"an id twice": func(g *fake.Guest) {
			_ = g.Print(1, "before\n")
			for range 2 {
				_ = g.Send("call", map[string]any{"id": 7, "verb": guest.VerbCall, "args": 1})
			}
			g.Hang()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				br := &testBridge{call: slowEcho}
				b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
					if g.Code == "hostile" {
						run(g)
						return
					}
					_ = g.Print(1, "fine\n")
					_ = g.Exit(0)
				}}, func(c *Config) { c.Bridge = br })
				defer b.close()
				other := b.goRun(t.Context(), Request{Code: "other"})
				r := b.run("hostile")
				wantError(t, r, StatusKilled, "broke the frame protocol")
				want(t, "stdout", r.Stdout, "before\n")
				want(t, "at once", r.Receipt.RunMS < 1000, true)
				want(t, "beside it", (<-other).Stdout, "fine\n")
				want(t, "the next", b.run("x").Stdout, "fine\n")
			})
		})
	}
}

// What an honest frame may carry is cut to size.
func TestOversizedClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		big := strings.Repeat("v", 512<<10)
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			var notes []string
			for range 1000 {
				notes = append(notes, big[:1<<10])
			}
			notes[0] = big[:128<<10]
			_ = g.Send("done", map[string]any{"value": big, "notes": notes,
				"error": map[string]string{"type": big[:128<<10], "message": big, "traceback": big}})
			_ = g.Exit(1)
		}}, nil)
		defer b.close()
		r := b.run("x")
		for what, n := range map[string][2]int{
			"value": {len(*r.Value), valueMax}, "type": {len(r.Error.Type), noteMax}, "message": {len(r.Error.Message), messageMax},
			"traceback": {len(r.Error.Traceback), tracebackMax}, "notes": {len(r.Notes), notesMax}, "note": {len(r.Notes[0]), noteMax},
		} {
			if n[0] > n[1]+100 {
				t.Errorf("%s has %d, at most %d", what, n[0], n[1])
			}
		}
		if !strings.Contains(r.Error.Message, "bytes cut") {
			t.Error("the cut is not marked")
		}
	})
}

// A print loop without end ends with its time; both ends of it are kept and the host's memory is bounded.
func TestPrintLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		frame := []byte(`{"t":"out","fd":1,"d":"` + strings.Repeat("1234567890", 6000) + `\n"}` + "\n")
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			_ = g.Print(1, "START\n")
			for g.Raw(frame) == nil {
			}
		}}, nil)
		defer b.close()
		synctest.Wait()
		var whole int64
		r := b.runAs(Request{Code: "x", Timeout: 20 * time.Millisecond, Output: func(_ int, p []byte) { whole += int64(len(p)) }})
		wantError(t, r, StatusTimeout)
		want(t, "truncated", r.Truncated, true)
		want(t, "the sink has seen all of it", whole, r.StdoutBytes)
		if r.StdoutBytes < 4<<20 || r.StdoutBytes > 40<<20 {
			t.Errorf("%d MiB in a fiftieth of a second, the pace is %d a second", r.StdoutBytes>>20, paceBytes>>20)
		}
		if !strings.HasPrefix(r.Stdout, "START\n1234567890") || !strings.HasSuffix(r.Stdout, "7890\n") {
			t.Errorf("%.30q … %.30q", r.Stdout, r.Stdout[len(r.Stdout)-30:])
		}
		if n := len(r.Stdout); n > DefaultOutputMax+100 {
			t.Errorf("%d bytes of stdout", n)
		}
	})
}

// Both streams are taken in as they come.
func TestStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			for range 16 {
				_ = g.Print(2, strings.Repeat("e", 62_500))
			}
			_ = g.Print(1, "out\n")
			_ = g.Exit(0)
		}}, nil)
		defer b.close()
		r := b.run("x")
		want(t, "stdout", r.Stdout, "out\n")
		want(t, "stderr", len(r.Stderr), 1_000_000)
		want(t, "truncated", r.Truncated, false)
	})
}

// One run that misbehaves in every way at once does not touch those beside it.
func TestNeighboursOfABomb(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, &fake.Runtime{Run: func(g *fake.Guest) {
			if g.Code != "bomb" {
				_ = g.Print(1, g.Code)
				_ = g.Exit(0)
				return
			}
			for i := range 1000 {
				_ = g.Print(2, "y")
				_, _ = g.Ask(guest.VerbCall, i)
			}
			g.Hang()
		}}, func(c *Config) {
			c.Bridge = &testBridge{call: slowEcho}
			withPool(func(p *pool.Config) { p.Size, p.Max = 6, 8 })(c)
		})
		defer b.close()
		synctest.Wait()
		bomb := b.goRun(t.Context(), Request{Code: "bomb"})
		for i := range 5 {
			r := b.run(fmt.Sprint("code ", i))
			want(t, "stdout", r.Stdout, fmt.Sprint("code ", i))
		}
		wantError(t, <-bomb, StatusTimeout)
	})
}
