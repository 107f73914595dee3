//go:build integration

package ctrd_test

import (
	"testing"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
)

func TestMain(m *testing.M) { ctrdtest.Main(m) }

// run sends code to a thawed sandbox and gives its stdout and last frame.
func run(t *testing.T, sb runtime.Sandbox, code string) (string, *guest.Frame) {
	t.Helper()
	if err := guest.NewWriter(sb.Stream()).Run(guest.Run{ID: "r", Code: code, ValueMax: 1 << 16}); err != nil {
		t.Fatal(err)
	}
	r := guest.NewReader(sb.Stream())
	var out []byte
	for {
		f, err := r.Next()
		if err != nil {
			t.Fatalf("after %q: %v", out, err)
		}
		switch f.Kind {
		case guest.KindOut:
			out = append(out, f.Data...)
		case guest.KindExit:
			copied := *f
			return string(out), &copied
		}
	}
}

func TestSmoke(t *testing.T) {
	e := ctrdtest.NewEnv(t)
	for _, name := range []string{ctrd.RuntimeRunc, ctrd.RuntimeThawpool} {
		t.Run(name, func(t *testing.T) {
			rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = name })
			for range 3 {
				sb := ctrdtest.Boot(t, rt, "smoke-1")
				t.Log(sb.Boot())
				if err := sb.Thaw(t.Context()); err != nil {
					t.Fatal(err)
				}
				out, f := run(t, sb, "print(6*7)")
				if out != "42\n" || f.Code != 0 {
					t.Fatalf("%q %+v", out, f)
				}
				u, err := sb.Usage()
				t.Log(u, err)
				if err := sb.Destroy(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
