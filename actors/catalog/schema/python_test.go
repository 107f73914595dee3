package schema

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/thawpool/thawpool/actors/upstream/realup"
)

// look parses what Describe wrote. Nothing may stand in it but definitions of types and the one function: a server's
// words must not become code.
const look = `
import ast, json, sys
for case in sys.stdin:
    stub, line = json.loads(case)
    verdict = ""
    try:
        tree = ast.parse(stub)
        *types, function = tree.body
        assert isinstance(function, ast.AsyncFunctionDef) and function.name == "do_it", "no function"
        (body,) = function.body
        assert isinstance(body.value, ast.Constant) and isinstance(body.value.value, str), "no docstring alone"
        for node in types:
            if isinstance(node, ast.Assign):
                assert node.value.func.id == "TypedDict", "an assignment"
                quoted = [v.value for v in node.value.args[1].values]
                for text in quoted:
                    ast.parse(text, mode="eval")
            else:
                assert isinstance(node, (ast.ClassDef, ast.TypeAlias)), type(node)
        for node in ast.walk(tree):
            assert not isinstance(node, (ast.Import, ast.Call)) or node.func.id == "TypedDict", "code"
        head = line.split("  # and ")[0] + ": ..."
        (alone,) = ast.parse(head).body
        assert isinstance(alone, ast.AsyncFunctionDef), "no signature"
    except Exception as e:
        verdict = f"{type(e).__name__}: {e}"
    print(json.dumps(verdict), flush=True)
`

// startReader starts a Python that parses what Describe wrote, and says what is wrong with it; "" when nothing is.
func startReader(t testing.TB) func(Doc) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), realup.Python(t), "-I", "-W", "ignore", "-c", look)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	to, from := json.NewEncoder(in), json.NewDecoder(out)
	return func(d Doc) (verdict string) {
		if err := to.Encode([2]string{d.Stub, d.Line}); err != nil {
			return err.Error()
		}
		if err := from.Decode(&verdict); err != nil {
			return err.Error()
		}
		return verdict
	}
}

func TestPythonTakesEveryStub(t *testing.T) {
	t.Parallel()
	read := startReader(t)
	check := func(name string, d Doc) {
		if wrong := read(d); wrong != "" {
			t.Errorf("%s: %s\n%s\n%s", name, wrong, d.Stub, d.Line)
		}
	}
	words := []string{"", "plain", "\"", `\`, `\"`, `"""`, "x\"\"\"\nimport os\n\"\"\"", "\x00\r\n\t\u2028", "ends in \\", "'''", "%s {x}", "\xff"}
	names := slices.Sorted(maps.Keys(tools))
	for i, name := range names {
		for _, outName := range []string{name, names[(i+1)%len(names)]} {
			d := Describe(Function{Name: "do_it", Server: "srv", Description: words[i%len(words)],
				Input: json.RawMessage(tools[name]), Output: json.RawMessage(tools[outName])})
			check(name+" / "+outName, d)
		}
	}
	for _, w := range words {
		for _, at := range []string{"name", "description", "enum", "default", "title", "format"} {
			property := map[string]any{"type": "string"}
			name := "p"
			switch at {
			case "name":
				name = w
			case "enum":
				property["enum"] = []any{w, "other"}
			default:
				property[at] = w
			}
			in, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{name: property, "q": map[string]any{"type": "object", "properties": map[string]any{name: property}}}})
			if err != nil {
				t.Fatal(err)
			}
			d := Describe(Function{Name: "do_it", Server: w, Description: w, Input: in, Output: in})
			check(at, d)
		}
	}
}

// FuzzSignature: whatever a server sends, Python reads the stub as types and one function, and the line as a signature.
func FuzzSignature(f *testing.F) {
	for _, raw := range tools {
		f.Add([]byte(raw), []byte(raw), "plain")
	}
	f.Add([]byte(tools["plain"]), []byte(nil), "x\"\"\"\nimport os\n\\")
	read := startReader(f)
	f.Fuzz(func(t *testing.T, in, out []byte, words string) {
		d := Describe(Function{Name: "do_it", Server: words, Description: words, Input: in, Output: out})
		if wrong := read(d); wrong != "" {
			t.Fatalf("%s\n%s\n%s", wrong, d.Stub, d.Line)
		}
	})
}
