package pyname

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestAliasesOfTools(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, want string }{
		{"C12 send-email", "send_email"}, {"C12 weather.get", "weather_get"}, {"C12 a/b", "a_b"},
		{"C12 two words", "two_words"}, {"C12 2fast", "tool_2fast"}, {"C12 über", "uber"},
		{"C14 class", "class_"}, {"C14 await", "await_"}, {"C14 print", "print"}, {"C14 __init__", "init_"},
		{"C14 list_tools", "list_tools_"}, {"C14 _private", "private_"}, {"C14 mro", "mro_"},
		{"x createIssue", "createIssue"}, {"x 查询", "Cha_Xun"}, {"x ｆｓ", "fs"},
	} {
		_, name, _ := strings.Cut(tc.name, " ")
		if got := Tools.Aliases([]string{name})[name]; got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.name, got, tc.want)
		}
	}
	if got := Servers.Aliases([]string{"servers", "my server"}); got["servers"] != "servers_" || got["my server"] != "my_server" {
		t.Errorf("servers: %v", got)
	}
}

func TestCollisionsDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	names := []string{"a-b", "a_b", "a.b", "a b", "class", "class_", "!", "?", "", "_a_b", "__a_b__", "a_b_", strings.Repeat("x", 100)}
	want := Tools.Aliases(names)
	if want["a_b"] != "a_b" || want["class_"] != "class_" || want["class"] == "class_" {
		t.Errorf("a name that fits lost its place: %v", want)
	}
	seen := map[string]bool{}
	for _, alias := range want {
		if seen[alias] || !Identifier(alias) {
			t.Errorf("%q is given twice or no identifier: %v", alias, want)
		}
		seen[alias] = true
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffled := slices.Clone(names)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for name, alias := range Tools.Aliases(shuffled) {
			if alias != want[name] {
				t.Fatalf("%q: %q in one order, %q in another", name, want[name], alias)
			}
		}
	}
}

func FuzzAliases(f *testing.F) {
	f.Add("a-b\na_b\na.b")
	f.Add("class\nclass_\n\x00\n9\n_9")
	f.Fuzz(func(t *testing.T, lines string) {
		names := strings.Split(lines, "\n")
		for _, kind := range []Kind{Tools, Servers, Arguments} {
			seen := map[string]string{}
			for name, alias := range kind.Aliases(names) {
				if !kind.Fits(alias) && !kind.Fits(strings.TrimRight(alias, "_")) && !Identifier(alias) {
					t.Fatalf("%q: %q is no identifier", name, alias)
				}
				if keywords[alias] || kind.reserved[alias] || alias[0] == '_' || len(alias) > maxAlias {
					t.Fatalf("%q: %q is reserved, private or too long", name, alias)
				}
				if first, twice := seen[alias]; twice {
					t.Fatalf("%q and %q both are %q", name, first, alias)
				}
				seen[alias] = name
			}
		}
	})
}
