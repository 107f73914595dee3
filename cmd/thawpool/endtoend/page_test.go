//go:build integration

package endtoend

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

var listenLine = regexp.MustCompile(`"listen":"([^"]+)"`)

// operators is the address where it serves them, which it tells in its log.
func (s *server) operators() string {
	s.t.Helper()
	var url string
	ctrdtest.Await(s.t, "operators are served", func() error {
		m := listenLine.FindStringSubmatch(s.log.String())
		if m == nil {
			return fmt.Errorf("the log names no address")
		}
		url = "http://" + m[1]
		return nil
	})
	return url
}

// fetch is what operators get there, at most a few events of those that never end.
func fetch(t testing.TB, url, token string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all strings.Builder
	lines := bufio.NewReader(res.Body)
	for events := 0; events < 2; {
		line, err := lines.ReadString('\n')
		all.WriteString(line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") {
			events++
		}
	}
	return res.StatusCode, all.String()
}

// waterfallCode makes inner calls that overlap, and prints.
const waterfallCode = `import asyncio
for _ in range(3):
    await asyncio.gather(*(mcp_abacus.add(a=i, b=1) for i in range(3)))
print("nine sums")`

// An operator watches the page in a real browser through a day's troubles, and acts.
func TestPage(t *testing.T) {
	b := openBrowser(t)
	e, base := env(t)
	s := serve(t, e, "--listen", "127.0.0.1:0", "--pool-size", "2", "--pool-max", "4", "--memory", "96m", "--page-code",
		"--servers-config", abacus(t, upstreamEnv, mortal)).open()
	own := s.operators()
	b.view(1280, 800, false)
	b.do("open the page", chromedp.Navigate(own+"/"))
	b.until("pools", "default: 2 ready of 2")
	b.until("health", "ready")
	b.until("link", "live")

	b.seeCalls(s)
	b.seeUpstream(s)
	b.seeKill(s)
	b.seeLooks()
	b.seeChecks()
	b.seePools(s)

	b.do("leave the page", chromedp.Navigate("about:blank"))
	b.mu.Lock()
	b.asked = b.asked[:len(b.asked)-1]
	b.mu.Unlock()
	b.clean(own)
	s.close()
	e.RequireNone(t, base)
}

// seeCalls runs calls that end in each way; one of them is opened.
func (b *browser) seeCalls(s *server) {
	for i, tt := range []struct {
		code, more string
		want       actors.Status
	}{
		{"print('fine')", "", actors.StatusSuccess},
		{"while True: pass", `,"timeout":0.3`, actors.StatusTimeout},
		{"x = bytearray(300 << 20)", "", actors.StatusOOM},
		{"{}['key']", "", actors.StatusError},
		{waterfallCode, "", actors.StatusSuccess},
	} {
		if res := s.do(i+1, tt.code, tt.more); res.Status != tt.want {
			b.t.Errorf("%q ended as %s: %+v", tt.code, res.Status, res.Error)
		}
		b.rows("last", i+1)
		b.until("last", string(tt.want))
	}
	b.until("last", "error: KeyError")
	name := get[string](b, `document.querySelector("#last tbody button").getAttribute("aria-label")`)
	b.press(name)
	b.until("stdout", "nine sums")
	b.until("code", "mcp_abacus.add")
	b.until("receipt", "statussuccess", "pool", "run")
	b.until("waterfall", "abacus.add: ok")
	if n := get[int](b, `document.querySelectorAll("#waterfall rect:not(.failed)").length`); n != 9 {
		b.t.Errorf("the waterfall has %d bars for 9 inner calls", n)
	}
	if id := get[string](b, "document.activeElement.id"); id != "one-h" {
		b.t.Errorf("the focus is on %q and not on the call that was opened", id)
	}
}

// seeUpstream lets a server die, and restarts it.
func (b *browser) seeUpstream(s *server) {
	b.until("servers", "abacus", "running")
	if res := s.do(20, "await mcp_abacus.die()"); res.Status != actors.StatusError {
		b.t.Errorf("%+v", res)
	}
	b.until("servers", "the last bead is gone")
	b.until("servers", "exited with status 3")
	b.agree("Restart server abacus", "Restart server abacus?")
	b.until("servers", "idle")
	if text := get[string](b, `document.getElementById("servers").textContent`); strings.Contains(text, "exited with") {
		b.t.Errorf("the failure was not forgotten: %s", text)
	}
	defer b.until("servers", "running")
	if res := s.do(21, "print(await mcp_abacus.add(a=20, b=22))"); res.Stdout != "42\n" {
		b.t.Errorf("after the restart: %+v", res)
	}
}

// seeKill ends a call, at the second thought.
func (b *browser) seeKill(s *server) {
	s.call(30, "print('I wait', flush=True)\nimport time\ntime.sleep(100)")
	b.until("flight", "running")
	name := get[string](b, `document.querySelector("#flight button[aria-label^=Kill]").getAttribute("aria-label")`)
	b.press(name)
	b.until("ask-text", "Kill call")
	b.accessible("a question")
	b.press("ask no")
	if get[bool](b, `document.getElementById("ask").open`) {
		b.t.Error("the question stays")
	}
	b.rows("flight", 1)
	b.agree(name, "Kill call")
	if a := s.recv(); a.ID != 30.0 || a.Result.Structured.Status != actors.StatusCancelled {
		b.t.Errorf("%+v", a)
	}
	b.until("last", "cancelled")
}

// seeLooks looks at the page in every light, and on a phone.
func (b *browser) seeLooks() {
	for _, v := range []struct {
		name          string
		width, height int64
		dark          bool
	}{{"page", 1280, 1000, false}, {"page-dark", 1280, 1000, true}, {"page-phone", 390, 844, false}, {"page-phone-dark", 390, 844, true}} {
		b.view(v.width, v.height, v.dark)
		b.fits()
		b.accessible(v.name)
		get[*string](b, "scrollTo(0, 0); document.activeElement.blur(); null")
		b.picture(v.name)
	}
	b.view(320, 568, false) // what WCAG wants of reflow
	b.fits()
	b.view(1280, 800, false)
}

// seeChecks asks for doctor's checks.
func (b *browser) seeChecks() {
	b.press("checks now")
	b.until("checks", "ok Linux kernel", "control groups")
	b.accessible("checks")
}

// seePools fills the pool with more, empties it by calls, and drains it for good.
func (b *browser) seePools(s *server) {
	b.press("Resize pool default")
	b.do("a larger number", chromedp.SetValue(chromedp.CSS("#ask-number"), "3"))
	b.do("agree", chromedp.Click(chromedp.CSS("#ask-yes")))
	b.until("link", "done")
	b.until("pools", "3 ready of 3")
	for id := 40; id < 46; id++ {
		s.call(id, "import time\ntime.sleep(100)")
	}
	b.until("pools", "0 ready of 3", "4 leased", "2 wait")
	for id := 40; id < 46; id++ {
		s.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	}
	b.until("pools", "3 ready of 3")
	b.agree("Drain pool default", "for good?")
	b.until("pools", "0 ready of 3, 0 booting, 0 leased, 0 ending", "Drained")
	b.until("health", "not ready", "drained")
	if res := s.do(50, "1"); res.Status != actors.StatusRejected || !strings.Contains(res.Error.Message, "shutting down") {
		b.t.Errorf("%+v", res)
	}
	b.until("turns", "not ready: pool default: it was drained")
}
