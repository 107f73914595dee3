package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/actors/observe"
	"github.com/thawpool/thawpool/actors/ops"
)

// What status prints of a process, and that nothing of it reaches the terminal as a command.
func TestStatusText(t *testing.T) {
	s := &ops.State{PID: 7, Version: "v", At: time.Unix(90, 0), Started: time.Unix(0, 0),
		Health:   ops.Health{Causes: []string{"boots fail: \x1b[31mno"}},
		Pools:    []ops.Pool{{Profile: "default", Ready: 2, Size: 4, Waiting: 1, Hits: 5}},
		Boxes:    []ops.Box{{ID: "tp-1", State: "ready", AgeMS: 4000, Peak: 20 << 20}},
		InFlight: []observe.Call{{ID: "r-1", State: "running", TookMS: 1500}},
		Servers:  []ops.ServerState{{Name: "wiki", State: "failed", Error: "exit\n1"}}}
	got := statusText([]ops.Found{{PID: 7, State: s}, {PID: 8, Error: "it does not answer"}})
	for _, want := range []string{"thawpool 7 (v, up 1m30s): NOT READY\n", "! boots fail:  [31mno", "2 ready of 4", "20MiB", "call r-1: running for 1.5 s",
		"server wiki: failed, 0 calls, 0 failed, mean 0.0 ms; exit 1\n", "thawpool 8: it does not answer"} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q in\n%s", want, got)
		}
	}
	if strings.ContainsRune(got, '\x1b') || statusText(nil) != "no thawpool serves\n" {
		t.Errorf("%q", got)
	}
}

func TestShowStatus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	o := ops.New(ops.Config{System: func() (ops.System, error) { return nil, errStarting }, Version: "v", Log: zerolog.Nop()})
	defer o.Close()
	if err := o.Publish(dir); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := showStatus(t.Context(), &out, dir, false, true); err != nil {
		t.Fatal(err)
	}
	var all []ops.Found
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all) != 1 || all[0].State.Health.Ready {
		t.Fatalf("%v %s", err, out.Bytes())
	}
	if c := all[0].State.Health.Causes; len(c) != 1 || c[0] != "sandboxes cannot be had: they are still being brought up" {
		t.Error(c)
	}
}
