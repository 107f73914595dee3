//go:build integration

package endtoend

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/thawpool/thawpool/actors/upstream/realup"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// screenshots is where pictures of the page go; docs/ holds those of a run with it.
var screenshots = flag.String("screenshots", "", "write pictures of the page into this directory")

// browser is a Chromium with one page open.
type browser struct {
	t    testing.TB
	page context.Context

	mu       sync.Mutex
	wrong    []string // what its console said of errors
	asked    []string // the addresses of all requests
	axeKnown bool
}

// openBrowser starts Debian's Chromium, with nothing in it that calls home.
func openBrowser(t testing.TB) *browser {
	t.Helper()
	realup.Need(t, "chromium")
	dir := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.UserDataDir(dir),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Env("HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, end := context.WithTimeout(context.Background(), 4*time.Minute) // of the whole test
	t.Cleanup(end)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	b := &browser{t: t}
	b.page, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(b.page); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	if err := chromedp.Listen(b.page, b.note); err != nil {
		t.Fatal(err)
	}
	return b
}

// note takes in what the page tells the developer.
func (b *browser) note(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *cdpruntime.EventConsoleAPICalled:
		if ev.Type == cdpruntime.ConsoleAPICalledTypeError || ev.Type == cdpruntime.ConsoleAPICalledTypeWarning {
			text, _ := json.Marshal(ev.Args)
			b.wrong = append(b.wrong, string(text))
		}
	case *cdpruntime.EventExceptionThrown:
		text, _ := json.Marshal(ev.ExceptionDetails)
		b.wrong = append(b.wrong, string(text))
	case *cdplog.EventEntryAdded:
		if ev.Entry.Level == cdplog.EntryLevelError || ev.Entry.Level == cdplog.EntryLevelWarning {
			b.wrong = append(b.wrong, ev.Entry.Text+" "+ev.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, ev.Request.URL)
	}
}

func (b *browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.page, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// get evaluates an expression in the page.
func get[T any](b *browser, js string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	v, err := chromedp.Run(b.page, chromedp.Evaluate[T](js, options...))
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// until waits for the text of an element, found by its id, to hold all words.
func (b *browser) until(id string, words ...string) {
	b.t.Helper()
	ctrdtest.Await(b.t, "the page", func() error {
		text := get[string](b, fmt.Sprintf("document.getElementById(%q).textContent", id))
		for _, w := range words {
			if !strings.Contains(text, w) {
				return fmt.Errorf("#%s lacks %q in %q", id, w, text)
			}
		}
		return nil
	})
}

// rows waits for a table to have that many rows.
func (b *browser) rows(id string, want int) {
	b.t.Helper()
	ctrdtest.Await(b.t, "the page", func() error {
		if n := get[int](b, fmt.Sprintf("document.querySelectorAll('#%s tbody tr').length", id)); n != want {
			return fmt.Errorf("#%s has %d rows and should have %d", id, n, want)
		}
		return nil
	})
}

// press clicks on the button with that name, once it is there, as a person would: where it is on the screen.
func (b *browser) press(name string) {
	b.t.Helper()
	b.do("press "+name, chromedp.Click(chromedp.CSS(fmt.Sprintf("button[aria-label=%q], #%s", name, strings.ReplaceAll(name, " ", "-")))))
}

// agree presses a button that asks, reads the question, and says yes.
func (b *browser) agree(name, question string) {
	b.t.Helper()
	b.press(name)
	b.until("ask-text", question)
	b.do("agree", chromedp.Click(chromedp.CSS("#ask-yes")))
	b.until("link", "done")
}

// view sets the size of the window in CSS pixels, and the user's wish for dark.
func (b *browser) view(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.do("view", chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// fits waits for the page as a whole to need no scrolling sideways: charts follow a new width one frame later.
func (b *browser) fits() {
	b.t.Helper()
	ctrdtest.Await(b.t, "the page", func() error {
		if w := get[[]int](b, "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"); w[0] > w[1] {
			return fmt.Errorf("it is %d pixels wide in a window of %d", w[0], w[1])
		}
		return nil
	})
}

// accessible lets axe look for what keeps people out, at all levels of WCAG 2.2 that it knows, and at good practice.
func (b *browser) accessible(what string) {
	b.t.Helper()
	if !b.axeKnown {
		get[*json.RawMessage](b, realup.Axe(b.t)+";null")
		b.axeKnown = true
	}
	type violation struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	found := get[[]violation](b, "axe.run().then(r => r.violations.map(v => ({ID: v.id, Impact: v.impact, Help: v.help, "+
		"Nodes: v.nodes.map(n => ({HTML: n.html, FailureSummary: n.failureSummary}))})))", chromedp.EvalAwaitPromise)
	for _, v := range found {
		b.t.Errorf("%s: axe finds %s (%s): %s: %+v", what, v.ID, v.Impact, v.Help, v.Nodes)
	}
}

// picture writes what is to be seen, when pictures are wanted.
func (b *browser) picture(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	data, err := chromedp.Run(b.page, chromedp.CaptureScreenshot())
	if err = errors.Join(err, os.WriteFile(filepath.Join(*screenshots, name+".png"), data, 0o644)); err != nil {
		b.t.Fatal(err)
	}
}

// clean fails the test when the console had something to say, or when the page asked anybody but its own process.
func (b *browser) clean(own string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		b.t.Errorf("console: %s", w)
	}
	if len(b.asked) < 5 {
		b.t.Errorf("saw only these requests: %v", b.asked)
	}
	for _, url := range b.asked {
		if !strings.HasPrefix(url, own+"/") {
			b.t.Errorf("the page asked %s", url)
		}
	}
}
