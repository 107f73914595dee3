package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/runtime/guest"
)

func TestHubC25ServerThatExitsAtOnce(t *testing.T) {
	t.Parallel()
	code, journal := 1, filepath.Join(t.TempDir(), "journal")
	b := newHubBed(t, map[string]entry{
		"bad": fakeEntry(fakeup.Script{Exit: &code, Stderr: "licence missing\n", Journal: journal}),
		"ok":  fakeEntry(fakeup.Script{}),
	}, nil)
	var wg sync.WaitGroup
	for range 9 {
		wg.Go(func() {
			for range 12 {
				r := b.open("bad", "ok")
				_, _, err := r.call("bad", "echo", `{}`)
				wantFault(t, err, "", "status 1", "licence missing")
			}
		})
	}
	wg.Wait()
	// The pause doubles from a second: what 108 calls may have started is a handful.
	if n := strings.Count(journalOf(journal), "start "); n > 10 {
		t.Errorf("%d starts", n)
	}
	st := b.statusOf("bad")
	if st.State != ClientFailed || !strings.Contains(st.Error, "status 1") {
		t.Errorf("status %+v", st)
	}
	b.open().mustCall("ok", "echo", `{}`)
}

func TestHubC26OneSharedProcess(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Journal: journal})}, nil)
	var wg sync.WaitGroup
	for i := range 50 { // 50 runs at once get their own answers
		wg.Go(func() {
			r := b.open()
			for j := range 4 {
				want := fmt.Sprintf(`"structuredContent":{"n":%d}`, 100*i+j)
				if raw := r.mustCall("up", "echo", fmt.Sprintf(`{"n":%d}`, 100*i+j)); !strings.Contains(raw, want) {
					t.Errorf("no %s in %s", want, raw)
				}
			}
		})
	}
	wg.Wait()
	if n := strings.Count(journalOf(journal), "start "); n != 1 {
		t.Errorf("%d starts", n)
	}
	eventually(t, "nothing is in flight", func() bool { return b.statusOf("up").InFlight == 0 })
	if st := b.statusOf("up"); st.Calls != 200 || st.Failures != 0 || st.State != ClientRunning {
		t.Errorf("status %+v", st)
	}
}

func TestHubInstancesGetOneCallAtATime(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, func(c *HubConfig) { c.Instances = 3 })
	r := b.open()
	ctx, end := context.WithCancel(context.Background())
	held := make(chan error, 1)
	go func() {
		_, _, err := r.Call(ctx, guest.VerbCall, json.RawMessage(`{"server":"up","tool":"sleep","args":{"ms":3600000}}`))
		held <- err
	}()
	eventually(t, "one instance is taken", func() bool { return b.statusOf("up").InFlight == 1 })
	first := b.statusOf("up").PIDs[0]
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			var v struct {
				StructuredContent struct{ Peak, PID int }
			}
			if err := json.Unmarshal([]byte(r.mustCall("up", "busy", `{"ms":5}`)), &v); err != nil {
				t.Error(err)
			}
			if v.StructuredContent.Peak != 1 || v.StructuredContent.PID == first {
				t.Errorf("%+v, while %d is taken", v, first)
			}
		})
	}
	wg.Wait()
	if n := len(b.statusOf("up").PIDs); n > 3 {
		t.Errorf("%d instances", n)
	}
	end()
	<-held
}

func TestHubC06LateServerBecomesUsable(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{
		"slow": fakeEntry(fakeup.Script{InitDelay: 500 * time.Millisecond}).with("startTimeout", "50ms"),
	}, nil)
	r := b.open()
	_, _, err := r.call("slow", "echo", `{}`)
	wantFault(t, err, guest.ErrTimeout, `"slow"`, "50ms", "start")
	eventually(t, "it runs", func() bool { return b.statusOf("slow").State == ClientRunning })
	r.mustCall("slow", "echo", `{}`)
	if st := b.statusOf("slow"); st.Starts != 1 {
		t.Errorf("started %d times", st.Starts)
	}
}

func TestHubKeepsALateServerThatACallWanted(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{
		"slow": fakeEntry(fakeup.Script{InitDelay: 500 * time.Millisecond}).with("startTimeout", "50ms"),
	}, func(c *HubConfig) { c.Idle = 50 * time.Millisecond })
	b.index = time.Hour // so that it tells which of the two times counts
	_, _, err := b.open().call("slow", "echo", `{}`)
	wantFault(t, err, guest.ErrTimeout, "50ms")
	eventually(t, "it runs", func() bool { return b.statusOf("slow").Starts == 1 })
	eventually(t, "it ends as one that was used", func() bool { return b.statusOf("slow").State == ClientIdle })
}

func TestHubRestartsAServerThatHangsWhileItStarts(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{InitNever: true, Journal: journal})}, nil)
	done := make(chan error, 1)
	go func() {
		_, _, err := b.open().call("up", "echo", `{}`)
		done <- err
	}()
	eventually(t, "it starts", func() bool { return strings.Contains(journalOf(journal), "initialize") })
	var pid int
	if _, err := fmt.Sscanf(journalOf(journal), "start %d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := b.Restart("up"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another one starts", func() bool { return strings.Count(journalOf(journal), "start ") == 2 })
	eventually(t, "the first one ends", func() bool { return procStat(pid) == "" })
	if st := b.statusOf("up"); st.State != ClientStarting || st.Waiting != 1 || st.Error != "" {
		t.Errorf("%+v", st)
	}
	b.close()
	wantFault(t, <-done, "", "stopped")
}

func TestHubC24ClosesWhileAServerStarts(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{InitNever: true, IgnoreTerm: true, Journal: journal})}, nil)
	r := b.open()
	done := make(chan error, 1)
	go func() {
		_, _, err := r.call("up", "echo", `{}`)
		done <- err
	}()
	eventually(t, "it starts", func() bool { return strings.Contains(journalOf(journal), "initialize") })
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil {
		t.Error("the call succeeded")
	}
	var pid int
	if _, err := fmt.Sscanf(journalOf(journal), "start %d", &pid); err != nil {
		t.Fatal(err)
	}
	if stat := procStat(pid); stat != "" {
		t.Errorf("left: %s", stat)
	}
	_, _, err := r.call("up", "echo", `{}`)
	wantFault(t, err, "", "stopped")
}

func TestHubIdleServersEnd(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, func(c *HubConfig) { c.Idle = 50 * time.Millisecond })
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	eventually(t, "it ends", func() bool { st := b.statusOf("up"); return st.State == ClientIdle && len(st.PIDs) == 0 })
	r.mustCall("up", "echo", `{}`)
	if st := b.statusOf("up"); st.Starts != 2 {
		t.Errorf("started %d times", st.Starts)
	}
}

func TestHubKilledServerIsReplaced(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, nil)
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	pid := b.statusOf("up").PIDs[0]
	done := make(chan error, 1)
	go func() {
		_, _, err := r.call("up", "never", `{}`)
		done <- err
	}()
	eventually(t, "the call is in flight", func() bool { return b.statusOf("up").InFlight == 1 })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantFault(t, <-done, "", "SIGKILL")
	r.mustCall("up", "echo", `{}`)
}

func TestHubRestartAndStatus(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Stderr: "hello from up\n"})}, nil)
	if st := b.statusOf("up"); st.State != ClientIdle {
		t.Errorf("%+v", st)
	}
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	eventually(t, "its stderr is read", func() bool { return strings.Contains(b.statusOf("up").Stderr, "hello from up") })
	st := b.statusOf("up")
	if st.LastUsed == nil || st.MeanMS <= 0 {
		t.Errorf("%+v", st)
	}
	if err := b.Restart("up"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ends", func() bool { return procStat(st.PIDs[0]) == "" })
	r.mustCall("up", "echo", `{}`)
	if err := b.Restart("nope"); err == nil {
		t.Error("restarted what is not there")
	}
}

func TestHubChangedDefinitions(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Version: "1"}), "gone": fakeEntry(fakeup.Script{})}, nil)
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	r.mustCall("gone", "echo", `{}`)
	before := b.statusOf("up").PIDs[0]
	gone := b.statusOf("gone").PIDs[0]
	b.define(map[string]entry{"up": fakeEntry(fakeup.Script{Version: "2"}), "new": fakeEntry(fakeup.Script{})})
	eventually(t, "the new server is known", func() bool { _, err := b.Snapshot().Resolve("new"); return err == nil })
	eventually(t, "old processes end", func() bool { return procStat(before) == "" && procStat(gone) == "" })
	now := b.open()
	now.mustCall("new", "echo", `{}`)
	now.mustCall("up", "echo", `{}`)
	_, _, err := now.call("gone", "echo", `{}`)
	wantFault(t, err, guest.ErrUnknownServer)
	r.mustCall("gone", "echo", `{}`) // a run that goes on keeps what it began with
	eventually(t, "which ends with its last call", func() bool { return b.statusOf("gone").Instances == 0 })
}

func TestHubFailedClientActorRecovers(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})}, nil)
	r := b.open()
	r.mustCall("up", "echo", `{}`)
	pid := b.statusOf("up").PIDs[0]
	b.mu.Lock()
	for _, ref := range b.clients {
		ref.tell(b.out, acquireConn{ticket: 1 << 60, reply: nilReply()})
	}
	b.mu.Unlock()
	eventually(t, "the actor's connections are ended", func() bool { return procStat(pid) == "" })
	r.mustCall("up", "echo", `{}`)
}

// nilReply is a channel that panics when it is written to.
func nilReply() chan<- grantedConn {
	c := make(chan grantedConn)
	close(c)
	return c
}

func TestReadTools(t *testing.T) {
	t.Parallel()
	b := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Name: "n", Version: "2"}), "bad": {"command": "/nonexistent"}}, nil)
	for name, ok := range map[string]bool{"up": true, "bad": false} {
		def, err := b.Snapshot().Resolve(name)
		if err != nil {
			t.Fatal(err)
		}
		l, err := ReadTools(context.Background(), def, "test", b.Hub.log)
		if (err == nil) != ok || ok && (l.Version != "n 2" || len(l.Tools) != len(fakeup.Builtin())) {
			t.Errorf("%s: %v %v", name, l.Version, err)
		}
	}
	if st := b.statusOf("up"); st.Starts != 0 {
		t.Error("it went through the hub")
	}
}
