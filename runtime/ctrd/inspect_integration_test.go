//go:build integration

package ctrd_test

import (
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

// TestInspect: a sandbox is confined as docs/security.md says, by what the kernel tells of its process.
func TestInspect(t *testing.T) {
	both(t, func(t *testing.T, _ *ctrdtest.Env, rt *ctrd.Runtime) {
		if got := inspected(t, rt); got != sandboxGolden {
			t.Errorf("got:\n%s\nthe golden file has:\n%s", got, sandboxGolden)
		}
	})
}

func inspected(t *testing.T, rt *ctrd.Runtime) string {
	t.Helper()
	report, err := rt.Inspect(t.Context(), "inspected")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := report.Print(&b, runtime.HiddenPaths()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
