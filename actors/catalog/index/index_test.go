package index

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

func open(t testing.TB) *Index {
	t.Helper()
	x, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func give(docs ...Doc) func() []Doc { return func() []Doc { return docs } }

func all(string, string) bool { return true }

func names(t *testing.T, x *Index, words string, accept func(string, string) bool) []string {
	t.Helper()
	hits, err := x.Search(words, 5, accept)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, h := range hits {
		list = append(list, h.Server+"."+h.Tool)
	}
	return list
}

var sample = map[string][]Doc{
	"github": {
		{Tool: "create_issue", Server: "github GitHub repositories", Description: "Create a new issue in a repository", Arguments: []string{"owner", "repo", "title", "labels"}},
		{Tool: "searchCode", Server: "github GitHub repositories", Description: "Look through source files", Arguments: []string{"query"}},
	},
	"calendar": {
		{Tool: "list_events", Server: "calendar", Description: "Lists calendar events between two dates", Arguments: []string{"start", "end"}},
		{Tool: "delete-event", Server: "calendar", Description: "Removes one event", Arguments: []string{"event_id"}},
	},
	"files": {
		{Tool: "read_file", Server: "files", Description: "Read the contents of a file", Arguments: []string{"path"}},
		{Tool: "weather.get", Server: "files", Description: "Forecast for a city", Arguments: []string{"city", "units"}},
	},
}

func TestSearch(t *testing.T) {
	t.Parallel()
	x := open(t)
	for server, docs := range sample {
		x.Set(server, give(docs...))
	}
	for _, tc := range []struct{ name, words, want string }{
		{"words of the name", "create issue", "github.create_issue"},
		{"whole name", "create_issue", "github.create_issue"},
		{"camel case in the query", "createIssue", "github.create_issue"},
		{"camel case in the name", "search code", "github.searchCode"},
		{"word forms", "creating issues", "github.create_issue"},
		{"plural", "calendar events", "calendar.list_events"},
		{"typing error", "calender evnts", "calendar."},
		{"typing error in a name", "wether", "files.weather_get"},
		{"beginning of a word", "repo", "github.create_issue"},
		{"argument", "labels", "github.create_issue"},
		{"description", "forecast", "files.weather.get"},
		{"the server's name", "github", "github."},
		{"hyphen", "delete event", "calendar.delete-event"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := names(t, x, tc.words, all)
			if len(got) == 0 || !strings.HasPrefix(strings.ReplaceAll(got[0], "weather.get", "weather_get"), strings.ReplaceAll(tc.want, "weather.get", "weather_get")) {
				t.Errorf("%q finds %v, want %s first", tc.words, got, tc.want)
			}
		})
	}
	for _, words := range []string{"", "  ", "\x00", "qqqqzzzz", "* OR +-\"(", strings.Repeat("x ", 5000), "\xff\xfe", "[a-"} {
		if got := names(t, x, words, all); len(got) > 0 {
			t.Errorf("%.20q finds %v", words, got)
		}
	}
}

func TestChangesAndChoice(t *testing.T) {
	t.Parallel()
	x := open(t)
	for server, docs := range sample {
		x.Set(server, give(docs...))
	}
	only := func(server, _ string) bool { return server == "files" }
	if got := names(t, x, "event issue file", only); !slices.Equal(got, []string{"files.read_file", "files.weather.get"}) {
		t.Errorf("not accepted servers are found: %v", got)
	}
	x.Set("calendar", give(Doc{Tool: "new_tool", Description: "events of a new kind"}))
	x.Set("github", give())
	if got := names(t, x, "events", all); !slices.Equal(got, []string{"calendar.new_tool"}) {
		t.Errorf("after a change: %v", got)
	}
	if got := names(t, x, "create issue", all); len(got) > 0 {
		t.Errorf("after removal: %v", got)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	x := open(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			server := fmt.Sprint("s", i)
			x.Set(server, give(Doc{Tool: "tool", Description: "finds things"}))
			hits, err := x.Search("thing", 20, func(s, _ string) bool { return s == server })
			if err != nil || len(hits) != 1 {
				t.Errorf("%v, %v", hits, err)
			}
		})
	}
	wg.Wait()
}

func thousand(x *Index) {
	verbs := strings.Fields("create list delete update read write search move copy send")
	for s := range 100 {
		var docs []Doc
		for i := range 10 {
			docs = append(docs, Doc{
				Tool: fmt.Sprintf("%s_thing%d", verbs[i], s), Server: fmt.Sprint("server", s),
				Description: strings.Repeat(fmt.Sprintf("Use this to %s the thing number %d of the project, with care. ", verbs[i], s), 4),
				Arguments:   []string{"project_id", "name", "description of the thing", "limit"},
			})
		}
		x.Set(fmt.Sprint("server", s), give(docs...))
	}
}

func BenchmarkIndex1000(b *testing.B) {
	for b.Loop() {
		x := open(b)
		thousand(x)
		if err := x.Flush(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSearch1000(b *testing.B) {
	x := open(b)
	thousand(x)
	for b.Loop() {
		if hits, err := x.Search("creating thing42 in prject", 10, all); err != nil || len(hits) == 0 {
			b.Fatal(hits, err)
		}
	}
}
