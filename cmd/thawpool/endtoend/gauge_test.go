//go:build integration

package endtoend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// gauge is what a server holds while its pool is full and nothing is to do.
type gauge struct {
	descriptors int
	goroutines  int
	things      map[string]int // by the leak counter's kinds
}

// slack is what may differ between two calm moments: connections that are kept for a while, a shim that is kept for the
// next boot, and up to 64 goroutines that the actors keep for the next work.
var slack = gauge{descriptors: 12, goroutines: 76, things: map[string]int{
	ctrdtest.Processes: 1, ctrdtest.Shims: 1, ctrdtest.Sockets: 1, ctrdtest.Bundles: 2,
}}

// warm makes a call that uses everything once, and reads what is held then.
func (sc *scene) warm(size int) {
	sc.t.Helper()
	if res := sc.s.do(0, "print(await mcp_abacus.add(a=1, b=1))"); res.Stdout != "2\n" {
		sc.t.Fatalf("%+v", res)
	}
	sc.awaitFrozen(size)
	var err error
	if sc.gauge, err = sc.now(); err != nil {
		sc.t.Fatal(err)
	}
}

// calm waits until the server holds no more than it did.
func (sc *scene) calm(base gauge, patience time.Duration) error {
	if base.things == nil {
		return nil
	}
	for began := time.Now(); ; {
		g, err := sc.now()
		if err == nil {
			err = g.exceeds(base)
		}
		if err == nil {
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("%v after the fault is dealt with: %w", patience, err)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

// exceeds tells what there is more of than in base.
func (g gauge) exceeds(base gauge) error {
	var errs []error
	more := func(what string, n, base, slack int) {
		if n > base+slack {
			errs = append(errs, fmt.Errorf("%d %s, were %d", n, what, base))
		}
	}
	more("descriptors", g.descriptors, base.descriptors, slack.descriptors)
	more("goroutines", g.goroutines, base.goroutines, slack.goroutines)
	for kind, n := range g.things {
		more(kind, n, base.things[kind], slack.things[kind])
	}
	return errors.Join(errs...)
}

// now reads what the server holds.
func (sc *scene) now() (g gauge, err error) {
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", sc.s.cmd.Process.Pid))
	if err != nil {
		return g, err
	}
	g.descriptors = len(names)
	if g.goroutines, err = goroutines(sc.socket()); err != nil {
		return g, err
	}
	l, err := sc.e.Count()
	g.things = map[string]int{}
	for kind, names := range l {
		g.things[kind] = len(names)
	}
	return g, err
}

// goroutines reads a number from /metrics.
func goroutines(socket string) (int, error) {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	resp, err := c.Get("http://localhost/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.Atoi(v)
		}
	}
	return 0, fmt.Errorf("no go_goroutines in %s", resp.Status)
}
