package policy

import (
	"errors"
	"strings"
	"testing"
)

func TestCall(t *testing.T) {
	t.Parallel()
	read := Tool{Name: "read", ReadOnly: true}
	write := Tool{Name: "write"}
	add := Tool{Name: "add/one.more", NotDestructive: true}
	for _, tc := range []struct {
		name        string
		allow, deny []string
		server      string
		tool        Tool
		want        Decision
	}{
		{"nothing set allows", nil, nil, "fs", write, Allow},
		{"server allowed", []string{"fs"}, nil, "fs", write, Allow},
		{"other server not allowed", []string{"fs"}, nil, "git", write, Deny},
		{"tool allowed", []string{"fs.read"}, nil, "fs", read, Allow},
		{"other tool not allowed", []string{"fs.read"}, nil, "fs", write, Deny},
		{"all tools", []string{"fs.*"}, nil, "fs", add, Allow},
		{"star takes dots and slashes", []string{"fs.add*more"}, nil, "fs", add, Allow},
		{"slash is literal", []string{"fs.add/one*"}, nil, "fs", add, Allow},
		{"deny wins", []string{"fs", "fs.write"}, []string{"fs.write"}, "fs", write, Deny},
		{"deny server", nil, []string{"fs"}, "fs", read, Deny},
		{"braces", []string{"{fs,git}.r*"}, nil, "git", read, Allow},
		{"class", nil, []string{"[a-f]?"}, "fs", read, Deny},
		{"readonly allows read", []string{"readonly"}, nil, "fs", read, Allow},
		{"readonly refuses write", []string{"readonly"}, nil, "fs", write, Deny},
		{"deny destructive takes unmarked", nil, []string{"destructive"}, "fs", write, Deny},
		{"deny destructive leaves marked", nil, []string{"destructive"}, "fs", add, Allow},
		{"deny destructive leaves read-only", nil, []string{"destructive"}, "fs", read, Allow},
		{"class of one server", []string{"fs:readonly", "git"}, nil, "git", write, Allow},
		{"class of one server refuses", []string{"fs:readonly", "git"}, nil, "fs", write, Deny},
		{"class of a tool glob", []string{"fs.r*:readonly"}, nil, "fs", read, Allow},
		{"server called readonly", []string{"[r]eadonly"}, nil, "readonly", write, Allow},
		{"dot in a server's name", []string{`my\.server.read`}, nil, "my.server", read, Allow},
		{"dot in a server's name is no split", []string{`my\.server`}, nil, "my", Tool{Name: "server"}, Deny},
		{"case", []string{"fs"}, nil, "FS", read, Deny},
		{"case of a tool", []string{"fs.read"}, nil, "fs", Tool{Name: "Read"}, Deny},
		{"full width", []string{"fs"}, nil, "ｆｓ", read, Deny},
		{"percent", []string{"fs"}, nil, "fs%20", read, Deny},
		{"NUL", []string{"fs"}, nil, "fs\x00", read, Deny},
		{"decomposed", []string{"caf\u00e9"}, nil, "cafe\u0301", read, Deny},
		{"stand-in cannot get past a deny", nil, []string{"fs.a*"}, "fs", Tool{Name: "a\x1fb"}, Deny},
		{"an over-long name is refused", nil, nil, "fs", Tool{Name: strings.Repeat("a", 2000)}, Deny},
		{"stand-in cannot play a slash", []string{"fs.a/b"}, nil, "fs", Tool{Name: "a\x1fb"}, Deny},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := New(Config{Allow: tc.allow, Deny: tc.deny, Limits: DefaultLimits()})
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Call(tc.server, tc.tool)
			if got != tc.want || (got == Deny) != errors.Is(err, ErrDenied) {
				t.Fatalf("got %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestDryRunPlansWhatIsNotReadOnly(t *testing.T) {
	t.Parallel()
	p, err := New(Config{DryRunMutations: true, Deny: []string{"git"}, Limits: DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		server string
		tool   Tool
		want   Decision
	}{
		{"fs", Tool{Name: "read", ReadOnly: true}, Allow},
		{"fs", Tool{Name: "write"}, Plan},
		{"fs", Tool{Name: "append", NotDestructive: true}, Plan},
		{"git", Tool{Name: "push"}, Deny},
	} {
		if got, _ := p.Call(tc.server, tc.tool); got != tc.want {
			t.Errorf("%s.%s: got %v, want %v", tc.server, tc.tool.Name, got, tc.want)
		}
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		allow, deny []string
		want        bool
	}{
		{"nothing set", nil, nil, true},
		{"a tool of it", []string{"fs.read"}, nil, true},
		{"another", []string{"git"}, nil, false},
		{"denied", nil, []string{"f*"}, false},
		{"all tools denied", nil, []string{"fs.*"}, false},
		{"one tool denied", nil, []string{"fs.write"}, true},
		{"a class denied", nil, []string{"destructive"}, true},
		{"read-only of any", []string{"readonly"}, nil, true},
	} {
		p, err := New(Config{Allow: tc.allow, Deny: tc.deny, Limits: DefaultLimits()})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Server("fs"); got != tc.want {
			t.Errorf("%s: got %v", tc.name, got)
		}
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	off, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if off.CanAdd() || !errors.Is(off.Add("x"), ErrDenied) {
		t.Error("adding is on with no pattern")
	}
	on, err := New(Config{AllowAdd: []string{"io.github.user/*", "notes"}, Limits: DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"io.github.user/good": true, "notes": true, "io.github.users/x": false, "ioxgithub.user/x": false, "com.evil/notes": false, "Notes": false,
	} {
		if err := on.Add(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewReportsEverythingWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Allow: []string{"", "a[", "a."}, Deny: []string{".b", "a:x"}})
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 6 {
		t.Fatalf("got %v", err)
	}
	var bad *PatternError
	if !errors.As(err, &bad) {
		t.Fatalf("no PatternError in %v", err)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	b := NewBudget(Limits{Calls: 2, Other: 1, Bytes: 10, Parallel: 1})
	for i, step := range []struct {
		do   func() error
		fail bool
	}{
		{func() error { return b.Call(4) }, false},
		{func() error { return b.Result(7) }, true},
		{func() error { return b.Result(4) }, false},
		{func() error { return b.Call(2) }, false},
		{func() error { return b.Call(0) }, true},
		{func() error { return b.Verb(0) }, false},
		{func() error { return b.Verb(0) }, true},
	} {
		if err := step.do(); errors.Is(err, ErrBudget) != step.fail {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"fs", "fs.read", "fs.*", `a\.b.c`, "readonly", "x:destructive", "{a,b}.[c-d]?", "a/b.c/d", "[", "{a", `\`, ".", "*.*", "ｆｓ"} {
		f.Add(s, "fs", "read")
	}
	f.Fuzz(func(t *testing.T, text, server, tool string) {
		p, err := Parse(text)
		if err != nil {
			var pe *PatternError
			if !errors.As(err, &pe) {
				t.Fatalf("not a PatternError: %v", err)
			}
			return
		}
		if p.String() != text {
			t.Fatalf("%q became %q", text, p.String())
		}
		all := p.matchTool(server, Tool{Name: tool, ReadOnly: true}) || p.matchTool(server, Tool{Name: tool})
		if all && !p.matchServer(server) {
			t.Fatal("a tool matches whose server does not")
		}
		if p.coversServer(server) && tool != "" && p.tool == "" && !all {
			t.Fatal("the server is covered and its tool is not")
		}
		// A denied server must have no callable tool.
		pol, err := New(Config{Deny: []string{text}, Limits: DefaultLimits()})
		if err != nil {
			t.Fatal(err)
		}
		if !pol.Server(server) && tool != "" && p.tool == "" {
			if d, _ := pol.Call(server, Tool{Name: tool}); d != Deny {
				t.Fatal("a tool of a denied server may be called")
			}
		}
	})
}
