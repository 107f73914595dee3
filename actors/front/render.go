package front

import (
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/toon-format/toon-go"

	"github.com/thawpool/thawpool/actors"
)

// toResult gives the tool's result for what a run came to. protocol is the client's revision of MCP, "" if unknown.
func (f *Front) toResult(res actors.Result, protocol string) *mcp.CallToolResult {
	links, notes := f.outputLinks(res)
	res.Notes = append(res.Notes[:len(res.Notes):len(res.Notes)], notes...)
	text := compact(res)
	if f.cfg.Mode == ModeTOON {
		text = inTOON(res)
	}
	out := &mcp.CallToolResult{
		Content:           []mcp.Content{mcp.NewTextContent(text)},
		StructuredContent: res,
		IsError:           res.Status != actors.StatusSuccess,
	}
	if protocol >= mcp.ProtocolVersion20250618 { // earlier clients do not know the type, and refuse the whole answer
		for _, l := range links {
			out.Content = append(out.Content, l)
		}
	}
	return out
}

// outputLinks names the resources that keep what was cut from res.
func (f *Front) outputLinks(res actors.Result) (links []mcp.ResourceLink, notes []string) {
	if f.cfg.Outputs == nil || !res.Truncated {
		return nil, nil
	}
	for _, stream := range []string{"stdout", "stderr"} {
		kept, whole := f.cfg.Outputs.Kept(res.Receipt.RequestID, stream)
		if kept == 0 {
			continue
		}
		uri := outputURI(res.Receipt.RequestID, stream)
		what := fmt.Sprintf("all %d bytes", kept)
		if !whole {
			what = fmt.Sprintf("the first %d bytes", kept)
		}
		notes = append(notes, fmt.Sprintf("%s of %s: resource %s", what, stream, uri))
		links = append(links, mcp.NewResourceLink(uri, stream, what+" of "+stream, mimeText))
	}
	return links, notes
}

// compact is the output as it came, then a line with a label for each other thing there is.
func compact(res actors.Result) string {
	var b strings.Builder
	section := func(label, text string) {
		if text == "" {
			return
		}
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(label)
		b.WriteString(text)
	}
	section("", res.Stdout)
	section("[stderr]\n", res.Stderr)
	if res.Value != nil {
		if b.Len() == 0 {
			section("", *res.Value)
		} else {
			section("[value] ", *res.Value)
		}
	}
	if e := res.Error; e != nil {
		section("["+string(res.Status)+"] ", errorText(e))
	} else if res.Status != actors.StatusSuccess {
		section("["+string(res.Status)+"]", exitText(res))
	}
	for _, n := range res.Notes {
		section("[note] ", n)
	}
	if b.Len() == 0 {
		return "(no output)"
	}
	return b.String()
}

// errorText is the traceback, which ends with the message, or the message alone.
func errorText(e *actors.RunError) string {
	if e.Traceback != "" {
		return strings.TrimRight(e.Traceback, "\n")
	}
	return e.Type + ": " + e.Message
}

func exitText(res actors.Result) string {
	if res.ExitCode == nil {
		return " ended"
	}
	return fmt.Sprintf(" exit status %d", *res.ExitCode)
}

// inTOON is the structured answer without its empty fields and its receipt.
func inTOON(res actors.Result) string {
	fields := []toon.Field{{Key: "status", Value: string(res.Status)}}
	add := func(key string, value any, there bool) {
		if there {
			fields = append(fields, toon.Field{Key: key, Value: value})
		}
	}
	if res.ExitCode != nil {
		add("exitCode", *res.ExitCode, *res.ExitCode != 0)
	}
	add("stdout", res.Stdout, res.Stdout != "")
	add("stderr", res.Stderr, res.Stderr != "")
	if res.Value != nil {
		add("value", *res.Value, true)
	}
	if e := res.Error; e != nil {
		inner := []toon.Field{{Key: "type", Value: e.Type}, {Key: "message", Value: e.Message}}
		if e.Traceback != "" {
			inner = append(inner, toon.Field{Key: "traceback", Value: e.Traceback})
		}
		add("error", toon.NewObject(inner...), true)
	}
	add("notes", res.Notes, len(res.Notes) > 0)
	add("truncated", true, res.Truncated)
	text, err := toon.MarshalString(toon.NewObject(fields...))
	if err != nil {
		return compact(res) // the answer matters more than its form
	}
	return text
}
