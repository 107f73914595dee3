//go:build integration

package endtoend

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime/inspect"
)

// doctor --sandbox tells of a real sandbox, as text and as JSON, and leaves nothing.
func TestDoctorShowsASandbox(t *testing.T) {
	e, base := env(t)
	text, err := command(t, e.StateDir, "doctor", "--sandbox").Output()
	if err != nil || !strings.Contains(string(text), "\ncapabilities  none in any set\n") || !strings.Contains(string(text), "\nbare          none\n") {
		t.Errorf("%v, it prints\n%s", err, text)
	}
	data, err := command(t, e.StateDir, "doctor", "--sandbox", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var r inspect.Report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if r.Seccomp != 2 || !r.NoNewPrivs || len(r.Namespaces) < 7 || r.Cgroup.Memory != 512<<20 || len(r.Masked) < 10 {
		t.Errorf("%+v", r)
	}
	e.RequireNone(t, base)
}
