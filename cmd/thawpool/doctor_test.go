package main

import (
	"encoding/json"
	"strings"
	"testing"

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
