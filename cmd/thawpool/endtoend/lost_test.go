//go:build integration

package endtoend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/actors/ops"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// Who loses containerd knows within ten seconds wherever he looks, and why, and that all is well again.
func TestLossOfContainerdIsTold(t *testing.T) {
	const cause = "containerd was lost"
	e, base := env(t)
	s := serve(t, e, "--listen", "127.0.0.1:0", "--pool-size", "1").open()
	own := s.operators()
	ready := func(want int, words string) func() error {
		return func() error {
			if code, text := fetch(t, own+"/readyz", ""); code != want || !strings.Contains(text, words) {
				return fmt.Errorf("%d %s", code, text)
			}
			return nil
		}
	}
	ctrdtest.Await(t, "ready", ready(http.StatusOK, "ready"))
	s.do(1, "1")

	// Nobody mends it while we look.
	keeper, ok := e.Keeper()
	if !ok {
		t.Fatal("no keeper")
	}
	signal := func(to syscall.Signal) {
		if err := syscall.Kill(keeper.PID, to); err != nil {
			t.Error(err)
		}
	}
	signal(syscall.SIGSTOP)
	goesOn := false
	defer func() {
		if !goesOn {
			signal(syscall.SIGCONT)
		}
	}()
	lost := time.Now()
	if err := syscall.Kill(e.Find(t, "containerd").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ctrdtest.Await(t, "not ready", ready(http.StatusServiceUnavailable, cause))
	if took := time.Since(lost); took > 10*time.Second {
		t.Errorf("readyz was red after %v", took)
	}
	if log := s.log.String(); !strings.Contains(log, `"event":"not ready","causes":["`+cause) {
		t.Error("the log does not tell it with its cause")
	}
	if _, text := fetch(t, own+"/metrics", ""); !strings.Contains(text, "\nthawpool_ready 0\n") || !strings.Contains(text, "\nthawpool_daemon_losses_total 1\n") {
		t.Error("the metrics do not tell it")
	}
	_, event := fetch(t, own+"/api/events", "")
	var st ops.State
	first, _, _ := strings.Cut(strings.TrimPrefix(event, "data: "), "\n")
	if err := json.Unmarshal([]byte(first), &st); err != nil || st.Health.Ready || !strings.Contains(strings.Join(st.Health.Causes, " "), cause) {
		t.Errorf("the page is told %+v, %v", st.Health, err)
	}
	if stdout, _, _ := shell(t, e, "", "status"); !strings.Contains(stdout, "NOT READY") || !strings.Contains(stdout, cause) {
		t.Errorf("status tells %s", stdout)
	}

	signal(syscall.SIGCONT)
	goesOn = true
	ctrdtest.Await(t, "ready again", ready(http.StatusOK, "ready"))
	if res := s.do(2, "print('again')"); res.Status != actors.StatusSuccess {
		t.Errorf("%+v", res)
	}
	if _, text := fetch(t, own+"/metrics", ""); !strings.Contains(text, "\nthawpool_ready 1\n") || !strings.Contains(text, "\nthawpool_daemon_connects_total 2\n") {
		t.Error("the metrics do not tell the recovery")
	}
	ctrdtest.Await(t, "the keeper's replacement and its sweep are counted", func() error {
		_, text := fetch(t, own+"/metrics", "")
		for _, want := range []string{"thawpool_keeper_daemon_replacements_total ", "thawpool_keeper_sweeps_total ", `thawpool_keeper_removed_total{kind="containers"} `} {
			_, after, found := strings.Cut(text, "\n"+want)
			if !found || strings.HasPrefix(after, "0\n") {
				return fmt.Errorf("%s is missing or 0", want)
			}
		}
		return nil
	})
	s.close()
	e.RequireNone(t, base)
}
