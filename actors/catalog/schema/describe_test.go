package schema

import (
	"encoding/json"
	"strings"
	"testing"
)

func written(input, output, seen string) Doc {
	return Describe(Function{
		Name: "f", Server: "srv", Description: "Does it.",
		Input: json.RawMessage(input), Output: json.RawMessage(output), Seen: json.RawMessage(seen),
	})
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, tool, want, problem string }{
		{"required, optional, default, enum", "plain", `async def f(*, path: str, limit: int = 10, follow: bool = ..., mode: Literal["r", "w"] = "r") -> Any`, ""},
		{"nested objects", "nested", `async def f(*, filter: FFilter, sort: str | None = ...) -> Any`, ""},
		{"unions", "unions", `async def f(*, id: int | str | None = ..., v: Literal[1] | Literal["x"] = ..., n: float | None = ..., any: Any = ..., none: Never = ..., meta: dict[str, float] = ..., pair: list[str | int] = ..., bag: dict[str, Any] = ...) -> Any`, ""},
		{"references", "refs", `async def f(*, node: Node, color: Literal["red", "green"] = ..., json: Json = ...) -> Any`, ""},
		{"a reference to itself", "root cycle", `async def f(*, self: FSelf = ..., name: str = ...) -> Any`, ""},
		{"a reference to nothing but itself", "empty cycle", `async def f(**arguments: Any) -> Any`, "no Python form"},
		{"alternatives at the root", "root anyOf", `async def f(*, a: str = ..., b: int = ...) -> Any`, "see inputSchema"},
		{"one of two required", "either", `async def f(*, a: str = ..., b: str = ...) -> Any`, ""},
		{"conjunction with a reference", "allOf", `async def f(*, id: str, extra: bool) -> Any`, "see inputSchema"},
		{"names that Python does not take", "odd names", `async def f(*, more: str = ..., self: str = ..., __x: FX = ..., **more_: Unpack[FMore]) -> Any`, ""},
		{"no schema", "no schema", `async def f(**arguments: Any) -> Any`, "gives no schema"},
		{"true", "true", `async def f(**arguments: Any) -> Any`, "no object"},
		{"array at the root", "array root", `async def f(**arguments: Any) -> Any`, "no object"},
		{"only a type", "type object", `async def f(**arguments: Any) -> Any`, "does not describe"},
		{"no arguments", "no arguments", `async def f() -> Any`, ""},
		{"references that lead nowhere", "foreign ref", `async def f(*, x: Any = ..., y: Any = ...) -> Any`, "not shown"},
		{"wrong keywords", "bad members", `async def f(*, a: Any, b: Any = ..., c: Any = ..., d: Any = ..., e: Any = ..., f: float | dict[str, Any] | list[Any] = ...) -> Any`, ""},
		{"defaults", "deep default", `async def f(*, o: dict[str, Any] = ..., e: list[Any] = [], s: str = "a\"\n\\b", b: int = 9007199254740993) -> Any`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := written(tools[tc.tool], "", "")
			if d.Line != tc.want {
				t.Errorf("got  %s\nwant %s", d.Line, tc.want)
			}
			if (d.Problem == "") != (tc.problem == "") || !strings.Contains(d.Problem, tc.problem) {
				t.Errorf("problem %q, want %q", d.Problem, tc.problem)
			}
		})
	}
}

func TestReturnTypes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, output, result, want string }{
		{"output schema", `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`, "", "FResult"},
		{"none", "", "", "Any"},
		{"seen: structured", "", `{"content":[],"structuredContent":{"a":[1,2.5,null]}}`, "FResult"},
		{"seen: wrapped by FastMCP", "", `{"structuredContent":{"result":[1,2]},"_meta":{"fastmcp":{"wrap_result":true}}}`, "list[int]"},
		{"seen: an object that has a result", "", `{"structuredContent":{"result":1}}`, "FResult"},
		{"seen: text", "", `{"content":[{"type":"text","text":"hello"}]}`, "str"},
		{"seen: blocks", "", `{"content":[{"type":"text","text":"a"},{"type":"image","data":""}]}`, "list[Any]"},
		{"seen: an image", "", `{"content":[{"type":"image","data":""}]}`, "list[Any]"},
		{"seen: nothing", "", `{"content":[]}`, "Any"},
		{"seen: an error", "", `{"isError":true,"content":[{"type":"text","text":"a"}]}`, "Any"},
		{"seen: garbage", "", `{`, "Any"},
		{"the promise counts more", `{"type":"string"}`, `{"content":[],"structuredContent":{"a":1}}`, "str"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := written(tools["no arguments"], tc.output, string(Shape(json.RawMessage(tc.result))))
			if want := "async def f() -> " + tc.want; d.Line != want {
				t.Errorf("got %s, want %s", d.Line, want)
			}
		})
	}
	d := written(tools["no arguments"], "", string(Shape(json.RawMessage(`{"content":[{"type":"text","text":" [{\"id\": 12345, \"tags\": []}]"}]}`))))
	if !strings.Contains(d.Stub, "json.loads gives list[FJsonItem]") || !strings.Contains(d.Stub, "class FJsonItem(TypedDict):\n    id: int\n    tags: list[Any]") || strings.Contains(d.Stub, "12345") {
		t.Errorf("JSON in text:\n%s", d.Stub)
	}
	table := map[string]int{}
	for i := range 100 {
		table[strings.Repeat("k", i+1)] = i
	}
	raw, err := json.Marshal(map[string]any{"structuredContent": table})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(Shape(raw)); got != `{"type":"object"}` {
		t.Errorf("keys that are data are remembered: %s", got)
	}
}

func TestStub(t *testing.T) {
	t.Parallel()
	d := Describe(Function{Name: "find_it", Server: "my server", Description: "Finds \"it\".\n\nWith \\care\\ \"\"\"",
		Input: json.RawMessage(tools["odd names"]), Output: json.RawMessage(tools["refs"])})
	const want = `FindItX = TypedDict("FindItX", {
    "__y": "NotRequired[str]",
    "a b": "NotRequired[str]",
})

class FindItResult(TypedDict):
    node: Node
    color: NotRequired[Literal["red", "green"]]
    json: NotRequired[Json]

class Node(TypedDict):
    value: int
    children: NotRequired[list[Node]]

type Json = str | list[Json] | dict[str, Json]

FindItMore = TypedDict("FindItMore", {
    "from": "int",
    "reply-to": "NotRequired[str]",  # who
    "class": "NotRequired[str]",
    "größe": "NotRequired[float]",
})

async def find_it(*, more: str = ..., self: str = ..., __x: FindItX = ..., **more_: Unpack[FindItMore]) -> FindItResult:
    """Finds "it".

    With \\care\\ \"\"\\"

    Args:
        reply-to: who

    (words supplied by server "my server\")
    """
`
	if d.Stub != want {
		t.Errorf("got\n%s", d.Stub)
	}
}

func TestEverythingIsBounded(t *testing.T) {
	t.Parallel()
	var wide, deep strings.Builder
	wide.WriteString(`{"type":"object","properties":{`)
	for i := range 3000 {
		if i > 0 {
			wide.WriteByte(',')
		}
		wide.WriteString(`"property_number_` + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + strings.Repeat("y", i/60) + `":{"type":"string","description":"d"}`)
	}
	wide.WriteString(`}}`)
	deep.WriteString(strings.Repeat(`{"type":"object","properties":{"a":`, 2000) + `{"type":"string"}` + strings.Repeat(`}}`, 2000))
	for name, raw := range map[string]string{
		"wide": wide.String(), "deep": deep.String(), "doubling": doubling(24),
		"large":     `{"type":"object","description":"` + strings.Repeat("x", MaxSchema) + `"}`,
		"long enum": `{"type":"object","properties":{"e":{"enum":["` + strings.Repeat(`a","`, 20000) + `b"]}}}`,
		"not JSON":  `{"type":`,
		"deeper":    strings.Repeat("[", 100000),
	} {
		d := written(raw, raw, "")
		if len(d.Line) > 2*maxLine || len(d.Stub) > maxStub+1024 || d.Problem == "" && name != "long enum" {
			t.Errorf("%s: line %d, stub %d bytes, %q", name, len(d.Line), len(d.Stub), d.Problem)
		}
		c := NewChecker(json.RawMessage(raw))
		if err := c.Check(json.RawMessage(`{}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if shown, _ := Readable(json.RawMessage(raw)); len(shown) > maxRaw {
			t.Errorf("%s: %d bytes are shown", name, len(shown))
		}
	}
}

func TestReadable(t *testing.T) {
	t.Parallel()
	shown, problem := Readable(json.RawMessage(`{ "z": 9007199254740993, "a": "x\u001b[2J\u202ey", "e": [" ", 1.0], "k\u200b": null }`))
	if want := `{"z":9007199254740993,"a":"xy","e":[" ",1.0],"k":null}`; string(shown) != want || problem == "" {
		t.Errorf("got %s, %q", shown, problem)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"create_issue", "createIssue", "list_issues", "fs", "FS", "x"}
	for _, tc := range []struct{ name, want string }{
		{"create_isue", "create_issue createIssue"}, {"issues", "list_issues"}, {"Fs", "fs FS x"}, {"FS", "FS fs x"},
		{"completely_other", ""}, {strings.Repeat("create_issue", 1000), ""},
	} {
		got := strings.Join(Nearest(tc.name, names), " ")
		if !strings.HasPrefix(got, strings.TrimSuffix(tc.want, " x")) || tc.want == "" && len(tc.name) < 100 && got != "" {
			t.Errorf("%.20s: got %q, want %q", tc.name, got, tc.want)
		}
	}
}

// FuzzSchema: whatever a server sends, there is a signature in bounded time and space, and nothing panics.
func FuzzSchema(f *testing.F) {
	for _, raw := range tools {
		f.Add([]byte(raw), []byte(`{"path":"x","n":{"a":[1,null]}}`))
	}
	f.Fuzz(func(t *testing.T, raw, args []byte) {
		d := written(string(raw), string(raw), "")
		if !strings.HasPrefix(d.Line, "async def f(") || strings.Contains(d.Line, "\n") || len(d.Stub) > maxStub+1024 {
			t.Fatalf("%q", d.Line)
		}
		_ = NewChecker(raw).Check(args)
		if shown, _ := Readable(raw); len(shown) > 0 && !json.Valid(shown) {
			t.Fatalf("%q", shown)
		}
		if shape := Shape(args); len(shape) > 0 && !json.Valid(shape) {
			t.Fatalf("%q", shape)
		}
	})
}
