//go:build integration

package endtoend

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// soakCall is a kind of call. want checks an answer of a calm time; in a storm a call may also end as faults make it.
type soakCall struct {
	name, code, more string
	want             func(r actors.Result) bool
	cancel           bool
}

// soakAnswer bounds how long an answer may take: the queue's wait, the run's timeout, and a stop of the server.
const soakAnswer = 60 * time.Second

// soakCalls makes each kind with values of its own, by which crossed answers would show.
func soakCalls(agent, n int) []soakCall {
	out := func(text string) func(actors.Result) bool {
		return func(r actors.Result) bool { return r.Status == actors.StatusSuccess && r.Stdout == text }
	}
	ends := func(s actors.Status) func(actors.Result) bool {
		return func(r actors.Result) bool { return r.Status == s }
	}
	id := agent*1_000_000 + n
	key := fmt.Sprintf("soak-%d-%d", agent, n%8)
	return []soakCall{
		{name: "plain", code: fmt.Sprintf("print(%d * 2)", id), want: out(fmt.Sprintln(id * 2))},
		{name: "plain", code: fmt.Sprintf("import json\nprint(json.dumps([%d]))", id), want: out(fmt.Sprintf("[%d]\n", id))},
		{name: "error", code: fmt.Sprintf("print('before')\nraise ValueError('no %d')", id), want: func(r actors.Result) bool {
			return r.Status == actors.StatusError && r.Stdout == "before\n" && r.Error.Message == fmt.Sprint("no ", id)
		}},
		{name: "timeout", code: "while True: pass", more: `,"timeout":0.5`, want: ends(actors.StatusTimeout)},
		{name: "memory limit", code: "x = b'1' * (300 << 20)\nprint(len(x))", want: ends(actors.StatusOOM)},
		{name: "upstream", code: fmt.Sprintf("print(await mcp_abacus.add(a=%d, b=1))", id), want: out(fmt.Sprintln(id + 1))},
		{name: "big output", code: fmt.Sprintf("print('%d' * 30000)", id), want: out(strings.Repeat(fmt.Sprint(id), 30000) + "\n")},
		{name: "memory", code: fmt.Sprintf("save_memory('%s', '%d')\nm = load_memory('%s')\nprint(m['value'] if isinstance(m, dict) else m)", key, id, key),
			want: func(r actors.Result) bool { // another call of this agent may have written the same key meanwhile
				return r.Status == actors.StatusSuccess && strings.HasPrefix(r.Stdout, fmt.Sprint(id)[:1]) && len(r.Stdout) == len(fmt.Sprintln(id))
			}},
		{name: "cancel", code: "import time\ntime.sleep(3)\nprint('not cancelled')", cancel: true, want: out("not cancelled\n")},
	}
}

// agent is one server with a client that starts another when it is killed.
type agent struct {
	s    *soak
	id   int
	args []string

	mu     sync.Mutex // guards what follows
	server *server
	waits  map[int]chan actors.Result // closed when the server ends
	last   int
	over   bool
	reader sync.WaitGroup
}

func newAgent(s *soak, id int) *agent {
	dir, err := os.MkdirTemp("/var/tmp", "tpf-")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := defineServer(s.t, dir, map[string]string{upstreamEnv: "1"})
	a := &agent{s: s, id: id + 1, waits: map[int]chan actors.Result{}, args: []string{
		"--servers-config", file, "--timeout", "5", "--memory", "128m", "--pool-size", "2", "--pool-max", "8",
		"--output-max", "1m", "--log-level", "error",
	}}
	a.start()
	return a
}

// start starts a server and reads from it until it ends; then the next one is started.
func (a *agent) start() {
	s := serve(a.s.t, a.s.e, a.args...)
	a.mu.Lock()
	a.server = s
	a.mu.Unlock()
	_, _ = io.WriteString(s.in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",`+
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	a.reader.Go(func() {
		for line := range s.lines {
			a.take(line)
		}
		<-s.ended
		a.mu.Lock()
		for id, c := range a.waits {
			close(c)
			delete(a.waits, id)
		}
		over := a.over
		a.mu.Unlock()
		if !over {
			a.s.count("servers started again")
			a.start()
		}
	})
}

// take gives an answer to who waits for it.
func (a *agent) take(line string) {
	var got answer
	if err := json.Unmarshal([]byte(line), &got); err != nil || got.Error != nil {
		a.s.t.Errorf("agent %d: the server wrote %.200q: %v", a.id, line, err)
		return
	}
	id, ok := got.ID.(float64)
	if got.Method != "" || !ok || id == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.waits[int(id)]
	if c == nil {
		a.s.t.Errorf("agent %d: an answer to %v that nobody waits for, or the second one", a.id, id)
		return
	}
	delete(a.waits, int(id))
	c <- got.Result.Structured
}

// work makes calls, a changing number at once.
func (a *agent) work(rng *rand.Rand, end time.Time) {
	for time.Now().Before(end) {
		var batch sync.WaitGroup
		for range 1 + rng.IntN(6) {
			n, kind := a.next(), rng.Float64()
			batch.Go(func() {
				all := soakCalls(a.id, n)
				a.do(n, all[int(kind*float64(len(all)))])
			})
		}
		batch.Wait()
	}
}

func (a *agent) next() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	return a.last
}

// do makes one call and checks what comes.
func (a *agent) do(id int, c soakCall) {
	code, err := json.Marshal(c.code)
	if err != nil {
		a.s.t.Error(err)
		return
	}
	mark, calm := a.s.calm()
	reply := make(chan actors.Result, 1)
	a.mu.Lock()
	a.waits[id] = reply
	in := a.server.in
	a.mu.Unlock()
	_, err = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"run_python","arguments":{"code":%s%s}}}`+"\n", id, code, c.more)
	if err == nil && c.cancel {
		time.Sleep(time.Duration(id%7) * 50 * time.Millisecond) // so that it meets the call at different moments
		_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", id)
		a.forget(id, reply)
		return
	}
	if err != nil { // the server is gone: whoever starts the next one closes reply
		a.forget(id, reply)
		time.Sleep(50 * time.Millisecond)
		return
	}
	select {
	case r, ok := <-reply:
		if now, _ := a.s.calm(); !ok {
			a.s.count("calls whose server was killed")
		} else {
			a.judge(c, r, calm && now == mark)
		}
	case <-time.After(soakAnswer):
		a.s.t.Errorf("agent %d: no answer to call %d (%s) after %v", a.id, id, c.name, soakAnswer)
	}
}

// forget waits for an answer to a cancelled call no longer than one might cross the cancellation.
func (a *agent) forget(id int, reply chan actors.Result) {
	a.s.count("cancel: sent")
	select {
	case <-reply:
	case <-time.After(time.Second):
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waits, id)
	}
}

// judge takes an answer for right or wrong. What a call has done is never wrong, whatever was broken; how it ends may be.
func (a *agent) judge(c soakCall, r actors.Result, calm bool) {
	a.s.count(c.name + ": " + string(r.Status))
	if c.want(r) {
		return
	}
	fault := r.Status == actors.StatusKilled || r.Status == actors.StatusRejected || r.Status == actors.StatusTimeout ||
		r.Status == actors.StatusError && (c.name == "upstream" || c.name == "memory") || r.Status == actors.StatusError && r.ExitCode != nil && *r.ExitCode == 137
	if calm || !fault {
		a.s.t.Errorf("agent %d, calm %v: %s ended %s: %.200q %+v, receipt %+v", a.id, calm, c.name, r.Status, r.Stdout, r.Error, r.Receipt)
	}
}

// find gives the processes of a part. Of runners it is one, of any sandbox.
func (a *agent) find(part string, rng *rand.Rand) ([]int, error) {
	a.mu.Lock()
	sc := &scene{t: a.s.t, e: a.s.e, s: a.server}
	a.mu.Unlock()
	if part != partRunner {
		return sc.find(part)
	}
	now, err := a.s.e.Count()
	ids := now[ctrdtest.Cgroups]
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return a.s.e.Group(ids[rng.IntN(len(ids))]).Procs()
}

func (a *agent) pid() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.server.cmd.Process.Pid
}

// close ends the server for good.
func (a *agent) close() {
	a.mu.Lock()
	a.over = true
	_ = a.server.in.Close()
	a.mu.Unlock()
	a.reader.Wait()
}
