package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/ops"
	"github.com/thawpool/thawpool/runtime/host"
)

func TestDoctorPrintsOneLineACheckAndItsMend(t *testing.T) {
	r := doctorReport{User: "alice", Checks: []host.Check{
		{ID: "kernel", Title: "Linux kernel", OK: true, Detail: "6.1.0", Fatal: true},
		{ID: "subids", Title: "subordinate ids", Cause: "/etc/subuid has no range for alice", Fix: "sudo thawpool setup --user alice", Fatal: true},
		{ID: "slow", Title: "disk", Cause: "it is slow"},
	}}
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	want := `checks for alice
ok    Linux kernel: 6.1.0
FAIL  subordinate ids: /etc/subuid has no range for alice
      mend it: sudo thawpool setup --user alice
warn  disk: it is slow
`
	if b.String() != want {
		t.Errorf("got:\n%s", b.String())
	}
	data, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(data), `{"id":"subids","title":"subordinate ids","ok":false,"cause":"/etc/subuid has no range`) {
		t.Errorf("%s, %v", data, err)
	}
}

// Root that never ran setup learns that, before anything else.
func TestDoctorWithoutTheServiceAccount(t *testing.T) {
	r := noAccount("/opt/thawpool/bin", host.FirstFailure([]host.Check{{Cause: "unknown user", Fatal: true}}))
	if r.OK || len(r.Checks) < 5 || r.Checks[0].ID != "account" || !strings.HasSuffix(r.Checks[0].Fix, " setup") {
		t.Errorf("%+v", r)
	}
}

// What a running process finds is told, and nothing of it reaches the terminal as a command.
func TestDoctorTellsOfRunningProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	o := ops.New(ops.Config{System: func() (ops.System, error) { return nil, errStarting }, Log: zerolog.Nop(),
		Checks: func(context.Context) []ops.Check {
			return []ops.Check{{Title: "kernel", OK: true}, {Title: "disk", Detail: "it is \x1b[31mfull"}}
		}})
	defer o.Close()
	if err := o.Publish(dir); err != nil {
		t.Fatal(err)
	}
	found, err := ops.FindChecks(t.Context(), dir)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	var out bytes.Buffer
	report := doctorReport{OK: true, User: "me", Running: append(found, ops.Checked{PID: 3, Error: "it does not answer"})}
	if err := report.print(&out); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("checks for me\nwarn  thawpool %d: not ready: sandboxes cannot be had: they are still being brought up; 1 of 2 checks good\n"+
		"      disk: it is  [31mfull\nwarn  thawpool 3: it does not answer\nsandboxes can run\n", os.Getpid())
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
