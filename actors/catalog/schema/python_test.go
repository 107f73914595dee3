package schema

import (
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/actors/upstream/realup"
)

// look parses what Describe wrote. Nothing may stand in it but definitions of types and the one function: a server's
// words must not become code.
const look = `
import ast, json, sys
for name, stub, line in json.load(sys.stdin):
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
        print(name, type(e).__name__, e, stub, line, sep="\n")
`

func TestPythonTakesEveryStub(t *testing.T) {
	t.Parallel()
	exe := realup.Python(t)
	words := []string{"", "plain", "\"", `\`, `\"`, `"""`, "x\"\"\"\nimport os\n\"\"\"", "\x00\r\n\t\u2028", "ends in \\", "'''", "%s {x}", "\xff"}
	var cases [][3]string
	names := slices.Sorted(maps.Keys(tools))
	for i, name := range names {
		for _, outName := range []string{name, names[(i+1)%len(names)]} {
			d := Describe(Function{Name: "do_it", Server: "srv", Description: words[len(cases)%len(words)],
				Input: json.RawMessage(tools[name]), Output: json.RawMessage(tools[outName])})
			cases = append(cases, [3]string{name + " / " + outName, d.Stub, d.Line})
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
			cases = append(cases, [3]string{at, d.Stub, d.Line})
		}
	}
	raw, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-I", "-c", look)
	cmd.Stdin = strings.NewReader(string(raw))
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
