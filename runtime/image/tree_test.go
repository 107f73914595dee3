package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// archiveOf writes lines as a layer: "d DIR", "f FILE" (executable), "n FILE" (not), "l FROM TO" (symlink), "h NEW OLD"
// (hard link), "c NAME" (device).
func archiveOf(t testing.TB, lines ...string) *bytes.Reader {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for _, line := range lines {
		words := strings.Fields(line)
		hdr := &tar.Header{Name: words[1], Mode: 0o755}
		switch words[0] {
		case "d":
			hdr.Typeflag = tar.TypeDir
		case "f":
			hdr.Typeflag = tar.TypeReg
		case "n":
			hdr.Typeflag, hdr.Mode = tar.TypeReg, 0o644
		case "l":
			hdr.Typeflag, hdr.Linkname = tar.TypeSymlink, words[2]
		case "h":
			hdr.Typeflag, hdr.Linkname = tar.TypeLink, words[2]
		case "c":
			hdr.Typeflag = tar.TypeChar
		}
		if err := tw.WriteHeader(hdr); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(out.Bytes())
}

func TestFindsPythonInLayers(t *testing.T) {
	t.Parallel()
	plain := []string{"d usr/bin", "f usr/bin/python3.11", "l usr/bin/python3 python3.11"}
	tests := []struct {
		name   string
		layers [][]string
		config ocispec.ImageConfig
		want   string // the interpreter, or with a leading "!" a part of the error
	}{
		{name: "plain", layers: [][]string{plain}, want: "/usr/bin/python3"},
		{name: "names with dots and slashes", layers: [][]string{{"d ./usr/bin/", "f ./usr/bin/python3"}}, want: "/usr/bin/python3"},
		{name: "merged usr", layers: [][]string{{"l bin usr/bin", "d usr/bin", "f usr/bin/python3"}},
			config: ocispec.ImageConfig{Env: []string{"PATH=/bin"}}, want: "/bin/python3"},
		{name: "added by a later layer through a link", layers: [][]string{{"d usr/bin", "l bin usr/bin"}, {"f bin/python3"}},
			want: "/usr/bin/python3"},
		{name: "PATH decides", layers: [][]string{plain, {"f usr/local/bin/python3"}}, want: "/usr/local/bin/python3"},
		{name: "PATH of the image", layers: [][]string{plain, {"f opt/conda/bin/python3"}},
			config: ocispec.ImageConfig{Env: []string{"A=b", "PATH=/opt/conda/bin:/usr/bin"}}, want: "/opt/conda/bin/python3"},
		{name: "relative directories on PATH", layers: [][]string{plain},
			config: ocispec.ImageConfig{Env: []string{"PATH=.:usr/bin::/usr/bin"}}, want: "/usr/bin/python3"},
		{name: "entrypoint outside PATH", layers: [][]string{{"f app/venv/bin/python3.12"}},
			config: ocispec.ImageConfig{Entrypoint: []string{"/app/venv/bin/python3.12", "-m", "x"}}, want: "/app/venv/bin/python3.12"},
		{name: "only with a version", layers: [][]string{{"f usr/bin/python3.9", "f usr/bin/python3.13", "f usr/bin/python3.8"}},
			want: "/usr/bin/python3.13"},
		{name: "only as python", layers: [][]string{{"f usr/bin/python"}}, want: "/usr/bin/python"},
		{name: "alternatives", layers: [][]string{{"l usr/bin/python3 /etc/alternatives/python3",
			"l etc/alternatives/python3 /opt/py/bin/python3.12", "f opt/py/bin/python3.12"}}, want: "/usr/bin/python3"},
		{name: "hard link", layers: [][]string{{"f usr/bin/python3.12", "h usr/bin/python3 usr/bin/python3.12"}}, want: "/usr/bin/python3"},
		{name: "links upwards beyond the root", layers: [][]string{{"l usr/bin/python3 ../../../../opt/python3.12", "f opt/python3.12"}},
			want: "/usr/bin/python3"},
		{name: "too old", layers: [][]string{{"f usr/bin/python3.7", "l usr/bin/python3 python3.7"}}, want: "!too old: python3.7"},
		{name: "old and new", layers: [][]string{{"f usr/bin/python3.6", "l usr/bin/python3 python3.6", "f usr/bin/python3.11"}},
			want: "/usr/bin/python3.11"},
		{name: "python 2", layers: [][]string{{"f usr/bin/python2.7", "l usr/bin/python python2.7"}}, want: "!too old: python2.7"},
		{name: "none", layers: [][]string{{"f usr/bin/perl"}}, want: "!no python3 in /usr/local/sbin"},
		{name: "not executable", layers: [][]string{{"n usr/bin/python3"}}, want: "!no python3"},
		{name: "a directory", layers: [][]string{{"d usr/bin/python3"}}, want: "!no python3"},
		{name: "a device", layers: [][]string{{"c usr/bin/python3"}}, want: "!no python3"},
		{name: "dangling", layers: [][]string{{"l usr/bin/python3 python3.11"}}, want: "!no python3"},
		{name: "loop", layers: [][]string{{"l usr/bin/python3 python", "l usr/bin/python python3"}}, want: "!no python3"},
		{name: "removed by a later layer", layers: [][]string{plain, {"n usr/bin/.wh.python3", "n usr/bin/.wh.python3.11"}}, want: "!no python3"},
		{name: "directory removed", layers: [][]string{plain, {"n usr/.wh.bin"}}, want: "!no python3"},
		{name: "opaque directory", layers: [][]string{plain, {"d usr/bin", "f usr/bin/python3.12", "n usr/bin/.wh..wh..opq"}},
			want: "/usr/bin/python3.12"},
		{name: "directory in place of a link", layers: [][]string{{"l bin usr/bin", "f usr/bin/python3"}, {"d bin"}},
			config: ocispec.ImageConfig{Env: []string{"PATH=/bin"}}, want: "!no python3"},
		{name: "file in place of a directory", layers: [][]string{plain, {"f usr"}}, want: "!no python3"},
		{name: "empty", layers: [][]string{{}}, want: "!no python3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			outline := &tree{}
			for i, lines := range tt.layers {
				if err := outline.addLayer(archiveOf(t, lines...), i); err != nil {
					t.Fatal(err)
				}
			}
			got, err := outline.python(tt.config)
			if err != nil {
				got = "!" + err.Error()
			}
			if got != tt.want && (!strings.HasPrefix(tt.want, "!") || !strings.Contains(got, tt.want[1:])) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTreeIsBounded(t *testing.T) {
	t.Parallel()
	long := &tree{}
	if err := long.addLayer(archiveOf(t, "d "+strings.Repeat("a/", maxPath)), 0); !errors.Is(err, errTooBig) {
		t.Errorf("long path: %v", err)
	}
	full := &tree{entries: maxEntries}
	if err := full.addLayer(archiveOf(t, "f a"), 0); !errors.Is(err, errTooBig) {
		t.Errorf("many files: %v", err)
	}
	names := &tree{names: maxNames}
	if err := names.addLayer(archiveOf(t, "f a"), 0); !errors.Is(err, errTooBig) {
		t.Errorf("many names: %v", err)
	}
	big := &tree{bytes: maxUnpacked}
	if err := big.addLayer(archiveOf(t, "f a"), 0); !errors.Is(err, errTooBig) {
		t.Errorf("many bytes: %v", err)
	}
}

func FuzzTree(f *testing.F) {
	for _, lines := range [][]string{
		{"d usr/bin", "f usr/bin/python3"}, {"l a b", "l b a", "f a/x"}, {"n .wh..wh..opq", "n .wh."}, {"l . /", "f ../../x"},
	} {
		var data bytes.Buffer
		if _, err := archiveOf(f, lines...).WriteTo(&data); err != nil {
			f.Fatal(err)
		}
		f.Add(data.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		outline := &tree{}
		if err := outline.addLayer(bytes.NewReader(data), 0); err != nil {
			return
		}
		if found, err := outline.python(ocispec.ImageConfig{}); err == nil && !strings.HasPrefix(found, "/") {
			t.Errorf("found %q", found)
		}
	})
}
