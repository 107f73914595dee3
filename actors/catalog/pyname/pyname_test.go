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
		{"send-email", "send_email"}, {"weather.get", "weather_get"}, {"a/b", "a_b"},
		{"two words", "two_words"}, {"2fast", "tool_2fast"}, {"über", "uber"},
		{"class", "class_"}, {"await", "await_"}, {"print", "print"}, {"__init__", "init_"},
		{"list_tools", "list_tools_"}, {"_private", "private_"}, {"mro", "mro_"},
		{"createIssue", "createIssue"}, {"查询", "Cha_Xun"}, {"ｆｓ", "fs"},
	} {
		if got := Tools.Aliases([]string{tc.name})[tc.name]; got != tc.want {
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
