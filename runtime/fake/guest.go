package fake

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// doneAndExit is the shortest run there is.
var doneAndExit = []byte("{\"t\":\"done\"}\n{\"t\":\"exit\",\"code\":0}\n")

// Guest is the inside of one sandbox, as Runtime.Run plays it. It may send what the protocol forbids. Sending fails once
// the sandbox was killed, and so does reading. Its methods, but for Raw, belong to one goroutine.
type Guest struct {
	Ctx context.Context // ends when the sandbox is killed
	ID  string          // of the run frame, as the fields below
	// Code is the Python source, which is not run: a Run function looks at it to choose what to play.
	Code    string
	Servers []string
	Saved   []string
	Frame   json.RawMessage // the whole run frame

	box  *Sandbox
	in   *bufio.Reader
	next int
}

// Reply is a reply frame.
type Reply struct {
	ID    int             `json:"id"`
	Value json.RawMessage `json:"value"`
	Error *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// Box is the sandbox that the guest lives in.
func (g *Guest) Box() *Sandbox { return g.box }

func (g *Guest) readRun() error {
	g.in = bufio.NewReader(io.MultiReader(bytes.NewReader(g.box.early), g.box.toGuest.r)) // early changes no more
	line, err := g.in.ReadBytes('\n')
	g.box.read.Add(int64(len(line)))
	if err != nil {
		return err
	}
	var run struct {
		ID      string `json:"id"`
		Code    string `json:"code"`
		Servers []struct {
			Name string `json:"name"`
		} `json:"servers"`
		Saved []string `json:"saved"`
	}
	if err := json.Unmarshal(line, &run); err != nil {
		return err
	}
	g.ID, g.Code, g.Saved, g.Frame = run.ID, run.Code, run.Saved, line
	for _, s := range run.Servers {
		g.Servers = append(g.Servers, s.Name)
	}
	return nil
}

// Raw sends bytes as they are.
func (g *Guest) Raw(b []byte) error {
	_, err := g.box.toHost.w.Write(b)
	return err
}

// Send sends a frame of any kind. Its kind comes first, as the runner writes it.
func (g *Guest) Send(kind string, fields map[string]any) error {
	b, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	line := fmt.Appendf(nil, "{\"t\":%q", kind)
	if len(fields) > 0 {
		line = append(line, ',')
	}
	return g.Raw(append(append(line, b[1:]...), '\n'))
}

// Print sends output of fd 1 or 2: as text where it is UTF-8, else as base64.
func (g *Guest) Print(fd int, text string) error {
	if !utf8.ValidString(text) {
		return g.Send("out", map[string]any{"fd": fd, "b": base64.StdEncoding.EncodeToString([]byte(text))})
	}
	b, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return g.Raw(fmt.Appendf(nil, "{\"t\":\"out\",\"fd\":%d,\"d\":%s}\n", fd, b))
}

// Done sends that the code has ended well; value is the repr of its last expression, "" for none.
func (g *Guest) Done(value string, notes ...string) error {
	f := map[string]any{}
	if value != "" {
		f["value"] = value
	}
	if len(notes) > 0 {
		f["notes"] = notes
	}
	return g.Send("done", f)
}

// Raise sends that the code has ended with an exception.
func (g *Guest) Raise(class, message, traceback string) error {
	return g.Send("done", map[string]any{"error": map[string]string{"type": class, "message": message, "traceback": traceback}})
}

// Exit sends that the child has exited.
func (g *Guest) Exit(code int) error { return g.Send("exit", map[string]any{"code": code}) }

// Signal sends that the child was ended by a signal.
func (g *Guest) Signal(n int) error { return g.Send("exit", map[string]any{"signal": n}) }

// Ask sends a call and returns its id.
func (g *Guest) Ask(verb string, args any) (int, error) {
	g.next++
	return g.next, g.Send("call", map[string]any{"id": g.next, "verb": verb, "args": args})
}

// Forget sends that a call's reply is no longer waited for.
func (g *Guest) Forget(id int) error { return g.Send("cancel", map[string]any{"id": id}) }

// Read returns the next reply, whatever call it answers.
func (g *Guest) Read() (Reply, error) {
	var r Reply
	line, err := g.in.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

// Call asks and waits for the reply.
func (g *Guest) Call(verb string, args any) (json.RawMessage, error) {
	id, err := g.Ask(verb, args)
	if err != nil {
		return nil, err
	}
	r, err := g.Read()
	switch {
	case err != nil:
		return nil, err
	case r.ID != id:
		return nil, fmt.Errorf("reply %d to call %d", r.ID, id)
	case r.Error != nil:
		return nil, fmt.Errorf("%s: %s", r.Error.Type, r.Error.Message)
	}
	return r.Value, nil
}

// Hang waits until the sandbox is killed.
func (g *Guest) Hang() { <-g.box.done }

// Sleep lets the code take time. It tells whether the sandbox is still alive.
func (g *Guest) Sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-g.box.done:
		return false
	}
}

// guestContext is a context that ends with the sandbox, without a goroutine to end it.
type guestContext struct{ done <-chan struct{} }

func (guestContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c guestContext) Done() <-chan struct{}     { return c.done }
func (guestContext) Value(any) any               { return nil }
func (c guestContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}
