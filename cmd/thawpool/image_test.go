package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/opencontainers/go-digest"

	"github.com/thawpool/thawpool/runtime/image"
)

func TestImageListing(t *testing.T) {
	t.Parallel()
	infos := []image.Info{{Ref: "default", Digest: digest.FromString("x"), Size: 22326314, Python: "/usr/local/bin/python3",
		Updated: time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)}}
	var table, list, none bytes.Buffer
	if err := errors.Join(printImages(&table, infos), printImagesJSON(&list, infos), printImagesJSON(&none, nil)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"IMAGE", "default", "2d711642b726", "22.33MB", "/usr/local/bin/python3", "2026-01-02 03:04:05"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("table has no %q:\n%s", want, table.String())
		}
	}
	if !strings.Contains(list.String(), `"ref": "default"`) || strings.TrimSpace(none.String()) != "[]" {
		t.Errorf("JSON is %s and %s", list.String(), none.String())
	}
}

func TestImageCommandsNeedTheDaemonAndRightArguments(t *testing.T) {
	t.Parallel()
	down := errors.New("daemon is down")
	for _, tt := range []struct {
		args []string
		down bool // the error is the daemon's
	}{
		{[]string{"ls"}, true}, {[]string{"pull", "x"}, true}, {[]string{"import", "x.tar"}, true}, {[]string{"rm", "x", "y"}, true},
		{[]string{"ls", "x"}, false}, {[]string{"pull"}, false}, {[]string{"import"}, false}, {[]string{"rm"}, false},
		{[]string{"nonsense"}, false},
	} {
		cmd := newImageCommand(func(context.Context) (*containerd.Client, func() error, error) { return nil, nil, down })
		cmd.SetArgs(tt.args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || errors.Is(err, down) != tt.down {
			t.Errorf("%q: %v", tt.args, err)
		}
	}
}
