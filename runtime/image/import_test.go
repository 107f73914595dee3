package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/thawpool/thawpool/runtime"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	gz := func(data []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(data)
		_ = w.Close()
		return out.Bytes()
	}
	read := func(lines ...string) []byte {
		data, err := io.ReadAll(archiveOf(t, lines...))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	rootfs := read("d ./usr/bin", "f ./usr/bin/python3")
	tests := []struct {
		name    string
		data    []byte
		archive bool
		err     string
	}{
		{name: "root filesystem", data: rootfs},
		{name: "compressed root filesystem", data: gz(rootfs)},
		{name: "unmerged root filesystem", data: read("f bin/sh")},
		{name: "OCI layout", data: read("f oci-layout", "f index.json"), archive: true},
		{name: "docker archive", data: gz(read("f abc/layer.tar", "f manifest.json")), archive: true},
		{name: "cut short", data: rootfs[:700], err: "not a readable tar"},
		{name: "compressed and cut short", data: gz(rootfs)[:40], err: "not a readable tar"},
		{name: "other files", data: read("f etc/passwd"), err: "neither an image nor a root filesystem"},
		{name: "an empty tar", data: read(), err: "neither an image nor a root filesystem"},
		{name: "text", data: []byte("FROM python:3.13\n"), err: "not a readable tar"},
		{name: "noise", data: bytes.Repeat([]byte{0xA5, 0x3C}, 4096), err: "not a readable tar"},
		{name: "an empty file", err: "neither an image nor"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "x.tar")
			writeFile(t, file, tt.data)
			archive, err := detect(t.Context(), file)
			if tt.err == "" && (err != nil || archive != tt.archive) {
				t.Errorf("got %v, %v", archive, err)
			}
			var hint *runtime.HintError
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || !errors.As(err, &hint)) {
				t.Errorf("error is %v", err)
			}
		})
	}
	if _, err := detect(t.Context(), "/does/not/exist.tar"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestNamesFromFiles(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"/x/numpy.tar":         "docker.io/library/numpy:latest",
		"Data Science.tar.gz":  "docker.io/library/data-science:latest",
		"py_3.13-slim.tar.zst": "docker.io/library/py-3-13-slim:latest",
		"rootfs":               "docker.io/library/rootfs:latest",
		"---.tar":              "",
	} {
		got, err := nameFromFile(file)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v", file, got, err)
		}
	}
}

func TestNamesInArchives(t *testing.T) {
	t.Parallel()
	target := func(content, full, short string) ocispec.Descriptor {
		d := ocispec.Descriptor{Digest: digest.FromString(content), Annotations: map[string]string{}}
		if full != "" {
			d.Annotations[images.AnnotationImageName] = full
		}
		if short != "" {
			d.Annotations[ocispec.AnnotationRefName] = short
		}
		return d
	}
	tests := []struct {
		name    string
		targets []ocispec.Descriptor
		given   string
		want    string // refs with spaces between, or with a leading "!" a part of the error
	}{
		{name: "docker", targets: []ocispec.Descriptor{target("a", "docker.io/library/x:1", "1")}, want: "docker.io/library/x:1"},
		{name: "two tags", targets: []ocispec.Descriptor{target("a", "x:1", ""), target("a", "x:2", "")},
			want: "docker.io/library/x:1 docker.io/library/x:2"},
		{name: "podman's ref", targets: []ocispec.Descriptor{target("a", "", "localhost/x:latest")}, want: "localhost/x:latest"},
		{name: "only a tag", targets: []ocispec.Descriptor{target("a", "", "latest")}, want: "docker.io/library/file:latest"},
		{name: "no name", targets: []ocispec.Descriptor{target("a", "", "")}, want: "docker.io/library/file:latest"},
		{name: "given", targets: []ocispec.Descriptor{target("a", "x:1", "")}, given: "docker.io/library/y:latest",
			want: "docker.io/library/y:latest"},
		{name: "given for two", targets: []ocispec.Descriptor{target("a", "x:1", ""), target("b", "x:2", "")},
			given: "y", want: "!cannot all be named"},
		{name: "two without names", targets: []ocispec.Descriptor{target("a", "", ""), target("b", "", "")}, want: "!does not name them"},
		{name: "ours", targets: []ocispec.Descriptor{target("a", repository+"python:3", "")}, want: "!kept for images that are made here"},
		{name: "nothing", want: "!holds no image"},
		{name: "hostile name", targets: []ocispec.Descriptor{target("a", "../../etc:x", "")}, want: "docker.io/library/file:latest"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			named, err := nameImages(tt.targets, "/x/file.tar", tt.given)
			var refs []string
			for _, image := range named {
				refs = append(refs, image.Name)
			}
			got := strings.Join(refs, " ")
			if err != nil {
				got = "!" + err.Error()
			}
			if got != tt.want && (!strings.HasPrefix(tt.want, "!") || !strings.Contains(got, tt.want[1:])) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRefsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{" ", "UPPER", "a b", "x:", "http://x/y", "x@sha256:12", strings.Repeat("a", 300)} {
		_, err := normalize(ref)
		var hint *runtime.HintError
		if !errors.Is(err, runtime.ErrImage) || !errors.As(err, &hint) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	if got, err := normalize("python"); err != nil || got != "docker.io/library/python:latest" {
		t.Errorf("python: %q, %v", got, err)
	}
}

func TestGuestLayerHasTheRunnerAndItsMountPoints(t *testing.T) {
	t.Parallel()
	entries, err := guestEntries(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeLayer(&out, entries); err != nil {
		t.Fatal(err)
	}
	have := map[string]*tar.Header{}
	for tr := tar.NewReader(&out); ; {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		have[hdr.Name] = hdr
		if hdr.Uid != 0 || hdr.Gid != 0 || hdr.Name != "tmp/" && hdr.Mode&0o022 != 0 {
			t.Errorf("%s belongs to %d:%d with mode %o", hdr.Name, hdr.Uid, hdr.Gid, hdr.Mode)
		}
	}
	for _, name := range []string{"opt/thawpool/runner.py", "opt/thawpool/mcp/__init__.py", "proc/", "dev/", "tmp/", "workspace/", "run/", "sys/"} {
		if have[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	if have["tmp/"] != nil && have["tmp/"].Mode != 0o1777 {
		t.Errorf("mode of /tmp is %o", have["tmp/"].Mode)
	}
}
