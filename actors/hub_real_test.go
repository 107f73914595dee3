//go:build integration

package actors

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/thawpool/thawpool/actors/upstream/realup"
	"github.com/thawpool/thawpool/runtime/guest"
)

// realServers are definitions of servers that others wrote.
func realServers(t *testing.T) (servers map[string]entry, files, repo string) {
	t.Helper()
	realup.Need(t, "node", "npm", "python3", "git")
	files, repo = t.TempDir(), t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", repo},
		{"-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "first words"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	return map[string]entry{
		"everything": {"command": realup.Command(t, "mcp-server-everything")},
		"filesystem": {"command": realup.Command(t, "mcp-server-filesystem"), "args": []string{files}},
		"memory":     {"command": realup.Command(t, "mcp-server-memory"), "env": map[string]string{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.jsonl")}},
		"time":       {"command": realup.Command(t, "mcp-server-time")},
		"git":        {"command": realup.Command(t, "mcp-server-git"), "args": []string{"--repository", repo}},
	}, files, repo
}

func TestRealServersOverStdio(t *testing.T) {
	servers, files, repo := realServers(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	b := newHubBed(t, servers, nil)
	for name := range servers {
		c, err := b.Check(context.Background(), name)
		if err != nil || !c.OK || c.Tools == 0 || len(c.Problems) > 0 {
			t.Fatalf("%s: %+v, %v", name, c, err)
		}
	}
	r := b.open()
	var wg sync.WaitGroup
	for _, tc := range []struct{ server, tool, args, want string }{
		{"everything", "echo", `{"message":"hé <&>"}`, "Echo: hé \\u003c"},
		{"everything", "get_sum", `{"a":2,"b":40}`, "42"},
		{"everything", "get-structured-content", `{"location":"Chicago"}`, `"structuredContent"`},
		{"everything", "get-tiny-image", `{}`, `"mimeType":"image/png"`},
		{"everything", "get-resource-links", `{"count":2}`, `"resource_link"`},
		{"everything", "get-resource-reference", `{"resourceType":"Blob","resourceId":1}`, `"blob"`},
		{"everything", "get-env", `{}`, "PATH"},
		{"time", "get_current_time", `{"timezone":"Europe/Berlin"}`, "Europe/Berlin"},
		{"time", "convert_time", `{"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}`, "21:00"},
		{"git", "git_log", `{"repo_path":"` + repo + `"}`, "first words"},
		{"memory", "create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote the first program"]}]}`, "Ada"},
		{"filesystem", "write_file", `{"path":"` + files + `/a.txt","content":"line one\nline two\n"}`, "a.txt"},
	} {
		wg.Go(func() {
			raw := r.mustCall(tc.server, tc.tool, tc.args)
			if !strings.Contains(raw, tc.want) && !strings.Contains(raw, strings.ReplaceAll(tc.want, `\u003c`, "<")) {
				t.Errorf("%s.%s: no %s in %s", tc.server, tc.tool, tc.want, raw)
			}
			if strings.Contains(raw, "AWS_SECRET") {
				t.Errorf("%s.%s sees the host's environment", tc.server, tc.tool)
			}
		})
	}
	wg.Wait()
	if raw := r.mustCall("memory", "search_nodes", `{"query":"first program"}`); !strings.Contains(raw, "Ada") {
		t.Error(raw)
	}
	if raw := r.mustCall("filesystem", "read_text_file", `{"path":"`+files+`/a.txt","head":1}`); !strings.Contains(raw, "line one") || strings.Contains(raw, "line two") {
		t.Error(raw)
	}
}

func TestRealServersFailProperly(t *testing.T) {
	servers, files, _ := realServers(t)
	b := newHubBed(t, servers, nil)
	r := b.open()
	for _, tc := range []struct{ server, tool, args, class, want string }{
		{"filesystem", "read_text_file", `{"path":"/etc/passwd"}`, "", "outside allowed directories"},
		{"filesystem", "read_text_file", `{"path":"` + files + `/none"}`, "", "ENOENT"},
		{"filesystem", "read_text_file", `{"pth":"x"}`, guest.ErrArguments, "path"},
		{"time", "convert_time", `{"source_timezone":"Nowhere","time":"1","target_timezone":"UTC"}`, "", "timezone"},
		{"git", "git_show", `{"repo_path":"` + files + `","revision":"HEAD"}`, "", "outside"},
		{"everything", "get-structured-content", `{"location":"Paris"}`, guest.ErrArguments, "Chicago"},
	} {
		_, _, err := r.call(tc.server, tc.tool, tc.args)
		wantFault(t, err, tc.class, tc.want)
	}
}

func TestRealServerIsCancelledKilledAndReplaced(t *testing.T) {
	servers, _, _ := realServers(t)
	b := newHubBed(t, servers, nil)
	r := b.open()
	r.mustCall("everything", "echo", `{"message":"x"}`)
	pid := b.statusOf("everything").PIDs[0]
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	long := json.RawMessage(`{"server":"everything","tool":"trigger-long-running-operation","args":{"duration":600,"steps":600}}`)
	go func() {
		_, _, err := r.Call(ctx, guest.VerbCall, long)
		done <- err
	}()
	eventually(t, "the call is in flight", func() bool { return b.statusOf("everything").InFlight == 1 })
	end()
	if err := <-done; outcomeOf(err) != "cancelled" {
		t.Errorf("got %v", err)
	}
	r.mustCall("everything", "echo", `{"message":"y"}`)
	go func() {
		_, _, err := r.Call(context.Background(), guest.VerbCall, long)
		done <- err
	}()
	eventually(t, "the call is in flight", func() bool { return b.statusOf("everything").InFlight == 1 })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wantFault(t, <-done, "", "SIGKILL")
	r.mustCall("everything", "echo", `{"message":"z"}`)
}

// everythingOverHTTP starts the server on a port of its own, and can start it again there.
func everythingOverHTTP(t *testing.T, mode string) (address string, restart func()) {
	t.Helper()
	realup.Need(t, "node", "npm")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	var cmd *exec.Cmd
	stop := func() {
		if cmd != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	restart = func() {
		stop()
		cmd = exec.Command(realup.Command(t, "mcp-server-everything"), mode)
		cmd.Env = append(os.Environ(), "PORT="+port)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server listens", func() bool {
			c, err := net.Dial("tcp", address)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	restart()
	t.Cleanup(stop)
	return address, restart
}

func TestRealServerOverHTTP(t *testing.T) {
	address, restart := everythingOverHTTP(t, "streamableHttp")
	b := newHubBed(t, map[string]entry{"far": {"url": "http://" + address + "/mcp"}}, nil)
	r := b.open()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if raw := r.mustCall("far", "get-sum", fmt.Sprintf(`{"a":%d,"b":1000}`, i)); !strings.Contains(raw, fmt.Sprint(1000+i)) {
				t.Error(raw)
			}
		})
	}
	wg.Wait()
	restart() // it does not know our session any more
	if raw := r.mustCall("far", "echo", `{"message":"again"}`); !strings.Contains(raw, "again") {
		t.Error(raw)
	}
	if st := b.statusOf("far"); st.Starts != 1 || st.Failures != 0 {
		t.Errorf("%+v", st)
	}
}

func TestRealServerOverOlderHTTP(t *testing.T) {
	address, restart := everythingOverHTTP(t, "sse")
	b := newHubBed(t, map[string]entry{"far": {"type": "sse", "url": "http://" + address + "/sse"}}, nil)
	r := b.open()
	if raw := r.mustCall("far", "get-tiny-image", `{}`); !strings.Contains(raw, "image/png") {
		t.Error(raw)
	}
	restart()
	eventually(t, "the loss is noticed", func() bool { return b.statusOf("far").Instances == 0 })
	if raw := r.mustCall("far", "echo", `{"message":"again"}`); !strings.Contains(raw, "again") {
		t.Error(raw)
	}
}

func TestPythonScriptOverRealServers(t *testing.T) {
	servers, files, repo := realServers(t)
	h := newHubBed(t, servers, nil)
	sys := pythonBed(t, h)
	runPython(t, sys, `
import asyncio
from mcp import runtime
found = await runtime.search_tool_docs("convert time between timezones")
docs = await runtime.query_tool_docs(found[0]["server"], found[0]["tool"], detail="full")
print(found[0]["tool"], "source_timezone: str" in docs["doc"])
log, tokyo, _ = await asyncio.gather(
    mcp_git.git_log(repo_path="`+repo+`"),
    mcp_time.convert_time(source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"),
    mcp_filesystem.write_file(path="`+files+`/note.txt", content="kept"),
)
print("first words" in str(log), "21:00" in str(tokyo))
print((await mcp_filesystem.read_text_file(path="`+files+`/note.txt"))["content"])
image = await mcp_everything.get_tiny_image()
print([b.type for b in image], bytes(image[1])[1:4])
save_memory("tokyo", {"seen": True})
print(load_memory("tokyo")["seen"])
`, `convert_time True
True True
kept
['text', 'image', 'text'] b'PNG'
True
`)
}
