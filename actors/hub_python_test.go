package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/policy"
	"github.com/thawpool/thawpool/actors/upstream/fakeup"
	"github.com/thawpool/thawpool/actors/upstream/realup"
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/guest"
)

// bareRuntime boots the real runner on a pipe, without any sandbox: for code of these tests only.
type bareRuntime struct {
	python, files string
}

// newBareRuntime unpacks the default image's interpreter and the guest's files.
func newBareRuntime(t *testing.T) *bareRuntime {
	t.Helper()
	dir := t.TempDir()
	files := filepath.Join(dir, "guest")
	if err := os.CopyFS(files, guest.Files()); err != nil {
		t.Fatal(err)
	}
	return &bareRuntime{python: realup.Python(t), files: files}
}

func (r *bareRuntime) Boot(ctx context.Context, id string) (runtime.Sandbox, error) {
	work, err := os.MkdirTemp("", "thawpool-bare-")
	if err != nil {
		return nil, err
	}
	args := guest.Argv(r.python, r.files)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{guest.WorkspaceEnv + "=" + work, "HOME=" + work, "TMPDIR=" + work}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b := &bareSandbox{id: id, work: work, cmd: cmd, in: in, out: out, done: make(chan struct{})}
	// The ready frame is one line; nothing may be read beyond it.
	for one := make([]byte, 1); one[0] != '\n'; {
		if _, err := io.ReadFull(out, one); err != nil {
			return nil, fmt.Errorf("runner is not ready: %w", err)
		}
	}
	return b, nil
}

func (r *bareRuntime) Close() error { return nil }

type bareSandbox struct {
	id, work string
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      io.Reader
	done     chan struct{}
	once     sync.Once
}

func (b *bareSandbox) ID() string                 { return b.id }
func (b *bareSandbox) Withdraw() bool             { return false }
func (b *bareSandbox) Boot() runtime.BootInfo     { return runtime.BootInfo{At: time.Now()} }
func (b *bareSandbox) Thaw(context.Context) error { return nil }
func (b *bareSandbox) Done() <-chan struct{}      { return b.done }
func (b *bareSandbox) Usage() (runtime.Usage, error) {
	return runtime.Usage{}, nil
}

func (b *bareSandbox) Stream() io.ReadWriter {
	return struct {
		io.Reader
		io.Writer
	}{b.out, b.in}
}

func (b *bareSandbox) Destroy(context.Context) error {
	b.once.Do(func() {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		_ = os.RemoveAll(b.work)
		close(b.done)
	})
	return nil
}

// pythonBed runs Python in bare runners that call a Hub.
func pythonBed(t *testing.T, h *hubBed) *System {
	t.Helper()
	p := testPool()
	p.Size, p.Max = 1, 4
	sys, err := Start(Config{
		Profiles: map[string]Profile{"default": {Runtime: newBareRuntime(t), Pool: p, Limits: runtime.DefaultLimits()}},
		Bridge:   h.Hub, DefaultTimeout: hubPatience, MaxTimeout: 2 * hubPatience, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, end := context.WithTimeout(context.Background(), hubPatience)
		defer end()
		if err := sys.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return sys
}

// runPython runs code and wants it to print exactly this.
func runPython(t *testing.T, sys *System, code, want string) Result {
	t.Helper()
	r := sys.Run(t.Context(), Request{ID: "py", Code: code})
	if r.Status != StatusSuccess || r.Stdout != want {
		raw, _ := json.MarshalIndent(r, "", " ")
		t.Errorf("got %q, want %q\n%s", r.Stdout, want, raw)
	}
	return r
}

func TestPythonCallsServersThroughTheHub(t *testing.T) {
	t.Parallel()
	tools := append(fakeup.Builtin(),
		json.RawMessage(`{"name":"send-email","inputSchema":{"type":"object","properties":{"from":{"type":"string"}}}}`))
	h := newHubBed(t, map[string]entry{
		"up":       fakeEntry(fakeup.Script{Tools: tools}),
		"other-up": fakeEntry(fakeup.Script{}),
	}, nil)
	sys := pythonBed(t, h)
	r := runPython(t, sys, `
import asyncio
from mcp import runtime, MCPError
print(sorted(runtime.discovered_servers()))
found = await runtime.search_tool_docs("large integer", limit=3)
print(found[0]["tool"], found[0]["signature"].split("(")[0])
docs = await runtime.query_tool_docs("up", "sleep", detail="full")
print(docs["inputSchema"]["required"])
print((await mcp_up.get_id())["id"])
a, b, c = await asyncio.gather(mcp_up.echo(text="a"), mcp_other_up.echo(n=2**63 + 1), mcp_servers["other-up"].echo(n=-1))
print(a["text"], b["n"], c["n"])
print(await mcp_up["send-email"](**{"from": "x"}), await mcp_up.send_email({"from": "y"}))
for wrong in (lambda: mcp_up.fail(text="quota"), lambda: mcp_up.sleep(mss=1), lambda: mcp_up.ecko(), lambda: mcp_servers["upp"].echo()):
    try:
        await wrong()
    except MCPError as e:
        print(type(e).__name__, str(e).split("\n")[0][:24].strip())
blocks = await mcp_up.blocks()
print([x.type for x in blocks], bytes(blocks[1])[:4], blocks[3].data)
raw = await mcp_up.blocks(raw=True)
print(len(raw["content"]))
from mcp.servers.up import echo
print((await echo(text="imported"))["text"])
save_memory("seen", {"n": 9007199254740993})
update_memory("count", lambda n: (n or 0) + 1)
print(load_memory("seen")["n"], load_memory("count"), memory_exists("none"))
`, `['other-up', 'up']
get_id async def get_id
['ms']
1915883588174806058
a 9223372036854775809 -1
send-email send-email
MCPError quota
ToolArgumentError up.sleep: wrong argument
UnknownToolError server "up" has no tool
UnknownServerError there is no server "upp"
['text', 'image', 'audio', 'resource', 'resource_link', 'text'] b'\x89PNG' b'\x00\x01\x02'
6
imported
9007199254740993 1 False
`)
	outcomes := map[string]int{}
	for _, c := range r.Receipt.Calls {
		if c.Server != "" {
			outcomes[c.Server+"."+c.Tool+" "+c.Outcome]++
		}
	}
	for _, what := range []string{"up.get_id ok", "up.echo ok", "other-up.echo ok", "up.fail error", "up.send-email ok"} {
		if outcomes[what] == 0 {
			t.Errorf("no %q in the receipt: %v", what, outcomes)
		}
	}
	if r.Receipt.KeptOut == 0 {
		t.Error("nothing was kept out of the context")
	}
	runPython(t, sys, "print(load_memory('count'), update_memory('count', lambda n: n + 1))", "1 2\n")
}

func TestPythonSeesThePlanOfADryRun(t *testing.T) {
	t.Parallel()
	h := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{})},
		withPolicy(t, func(c *policy.Config) { c.DryRunMutations = true }))
	sys := pythonBed(t, h)
	r := runPython(t, sys, `
r = await mcp_up.write(path="a.txt")
print(r["planned"], (await mcp_up.echo(text="real"))["text"])
`, "True real\n")
	if len(r.Receipt.Plan) != 1 || r.Receipt.Plan[0].Tool != "write" || !strings.Contains(r.Receipt.Plan[0].Arguments, "a.txt") {
		t.Errorf("plan %+v", r.Receipt.Plan)
	}
}

func TestRunThatTimesOutCancelsItsCalls(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	h := newHubBed(t, map[string]entry{"up": fakeEntry(fakeup.Script{Journal: journal})}, nil)
	sys := pythonBed(t, h)
	runPython(t, sys, "await mcp_up.echo(text='warm')", "")
	done := make(chan Result, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() {
		done <- sys.Run(ctx, Request{ID: "slow", Code: "await mcp_up.sleep(ms=3600000)"})
	}()
	eventually(t, "the call arrives", func() bool { return strings.Contains(journalOf(journal), `"sleep"`) })
	end()
	if r := <-done; r.Status != StatusCancelled {
		t.Errorf("%+v", r)
	}
	eventually(t, "the server gives up", func() bool { return strings.Contains(journalOf(journal), "gave up") })
	runPython(t, sys, "print((await mcp_up.echo(text='again'))['text'])", "again\n")
	if st := h.statusOf("up"); st.Starts != 1 {
		t.Errorf("started %d times", st.Starts)
	}
}
