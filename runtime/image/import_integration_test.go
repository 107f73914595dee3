//go:build integration

package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/image"
)

// file is one member of an archive.
type file struct {
	name string
	data []byte
}

// python3 is the header of a file that looks like an interpreter.
var python3 = tar.Header{Name: "usr/bin/python3", Mode: 0o755, Typeflag: tar.TypeReg}

// layerOf writes a layer's archive.
func layerOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for _, hdr := range headers {
		data := []byte(nil)
		if hdr.Typeflag == tar.TypeReg {
			data = []byte("content")
			hdr.Size = int64(len(data))
		}
		if err := tw.WriteHeader(&hdr); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// saved is what an archive or a registry holds: one image, and all its documents.
type saved struct {
	config, manifest, index []byte
	layers                  [][]byte
}

// save makes an image of layers. change may spoil its config.
func save(t *testing.T, annotations map[string]string, change func(*ocispec.Image), layers ...[]byte) saved {
	t.Helper()
	config := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: goruntime.GOARCH}}
	config.RootFS.Type = "layers"
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, layer := range layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromBytes(layer))
		manifest.Layers = append(manifest.Layers, describe(ocispec.MediaTypeImageLayer, layer))
	}
	if change != nil {
		change(&config)
	}
	s := saved{config: document(t, config), layers: layers}
	manifest.Config = describe(ocispec.MediaTypeImageConfig, s.config)
	s.manifest = document(t, manifest)
	desc := describe(ocispec.MediaTypeImageManifest, s.manifest)
	desc.Annotations, desc.Platform = annotations, &config.Platform
	other := describe(ocispec.MediaTypeImageManifest, []byte("not here"))
	other.Platform = &ocispec.Platform{OS: "linux", Architecture: "s390x"}
	s.index = document(t, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{other, desc}})
	return s
}

func describe(mediaType string, data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

func document(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// layout writes an OCI layout whose only image has one platform.
func (s saved) layout(t *testing.T) []file {
	t.Helper()
	var index ocispec.Index
	if err := json.Unmarshal(s.index, &index); err != nil {
		t.Fatal(err)
	}
	index.Manifests = index.Manifests[1:]
	files := []file{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", document(t, index)}}
	for _, blob := range append([][]byte{s.config, s.manifest}, s.layers...) {
		files = append(files, file{"blobs/sha256/" + digest.FromBytes(blob).Encoded(), blob})
	}
	return files
}

// docker writes what docker save writes.
func (s saved) docker(t *testing.T, tags ...string) []file {
	t.Helper()
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	e := entry{Config: "config.json", RepoTags: tags}
	files := []file{{"config.json", s.config}}
	for _, layer := range s.layers {
		name := digest.FromBytes(layer).Encoded() + "/layer.tar"
		e.Layers = append(e.Layers, name)
		files = append(files, file{name, layer})
	}
	return append(files, file{"manifest.json", document(t, []entry{e})})
}

// write puts files into a tar on disk.
func write(t *testing.T, name string, compress bool, files ...file) string {
	t.Helper()
	var out bytes.Buffer
	var w io.Writer = &out
	if compress {
		z := gzip.NewWriter(&out)
		defer z.Close()
		w = z
	}
	tw := tar.NewWriter(w)
	for _, f := range files {
		if err := tw.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if z, ok := w.(*gzip.Writer); ok {
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImportFormats(t *testing.T) {
	ctx, b := newBench(t)
	lower := layerOf(t, tar.Header{Name: "tmp", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, python3)
	upper := layerOf(t, tar.Header{Name: "etc/motd", Typeflag: tar.TypeReg, Mode: 0o644})
	plain := save(t, nil, nil, lower, upper)
	refName := map[string]string{ocispec.AnnotationRefName: "localhost/own:1"}
	rootfs := filepath.Join(t.TempDir(), "My RootFS.tar")
	if err := os.WriteFile(rootfs, lower, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file, given string
		want              []string
	}{
		{name: "docker", file: write(t, "a.tar", false, plain.docker(t, "x:1", "x:2")...),
			want: []string{"docker.io/library/x:1", "docker.io/library/x:2"}},
		{name: "docker, compressed and without a tag", file: write(t, "b.tar.gz", true, plain.docker(t)...),
			want: []string{"docker.io/library/b:latest"}},
		{name: "layout", file: write(t, "c.tar", false, save(t, refName, nil, lower).layout(t)...), want: []string{"localhost/own:1"}},
		{name: "layout, named", file: write(t, "d.tar", false, plain.layout(t)...), given: "team/d:3",
			want: []string{"docker.io/team/d:3"}},
		{name: "root filesystem", file: rootfs, want: []string{"docker.io/library/my-rootfs:latest"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refs, err := image.Import(ctx, b.Client, tt.file, tt.given, b.log)
			if err != nil || !slices.Equal(refs, tt.want) {
				t.Fatalf("got %q, %v; want %q", refs, err, tt.want)
			}
			for _, ref := range refs {
				ready, err := image.Ensure(ctx, b.Client, ref, b.log)
				if err != nil || ready.Ref != ref || ready.Python != "/usr/bin/python3" {
					t.Fatalf("%s: %+v, %v", ref, ready, err)
				}
				b.checkGuest(ctx, t, ready, false)
				if err := image.Remove(ctx, b.Client, ref, b.log); err != nil {
					t.Fatal(err)
				}
			}
			if left := b.left(ctx, t); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

// What cannot be used is refused with the reason, and nothing of it stays: neither content nor a name.
func TestImportRefuses(t *testing.T) {
	ctx, b := newBench(t)
	good := layerOf(t, python3)
	whole := save(t, nil, nil, good)
	foreign := save(t, nil, func(c *ocispec.Image) { c.Architecture = "s390x" }, good)
	lies := save(t, nil, func(c *ocispec.Image) { c.RootFS.DiffIDs[0] = digest.FromString("something else") }, good)
	short := save(t, nil, func(c *ocispec.Image) { c.RootFS.DiffIDs = nil }, good)
	cut := save(t, nil, nil, good[:515])
	barren := save(t, nil, nil, layerOf(t, tar.Header{Name: "bin/sh", Typeflag: tar.TypeReg, Mode: 0o755}))
	without := func(files []file, part string) []file {
		return slices.DeleteFunc(files, func(f file) bool { return strings.Contains(f.name, part) })
	}
	huge := make([]byte, 9<<20)
	copy(huge, `{"manifests":[`)
	tests := []struct {
		name string
		file string
		want string
	}{
		{"another machine's", write(t, "x.tar", false, foreign.docker(t, "x")...), "linux/s390x"},
		{"a layer that is not what its config says", write(t, "x.tar", false, lies.docker(t, "x")...), "diff"},
		{"a config without layers", write(t, "x.tar", false, short.docker(t, "x")...), "names 0 layers"},
		{"a cut layer", write(t, "x.tar", false, cut.docker(t, "x")...), "layer 1 of 1"},
		{"no Python", write(t, "x.tar", false, barren.docker(t, "x")...), "no python3"},
		{"a missing layer", write(t, "x.tar", false, without(whole.docker(t, "x"), "layer.tar")...), "layer.tar\" not found"},
		{"a missing config", write(t, "x.tar", false, without(whole.docker(t, "x"), "config")...), "config.json\" not found"},
		{"a missing blob", write(t, "x.tar", false, without(whole.layout(t), digest.FromBytes(whole.layers[0]).Encoded())...), "not found"},
		{"a missing index", write(t, "x.tar", false, without(whole.layout(t), "index")...), "index.json"},
		{"a broken manifest", write(t, "x.tar", false, file{"manifest.json", []byte("{")}), "manifest"},
		{"an index of many MiB", write(t, "x.tar", false, file{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)},
			file{"index.json", huge}), "too big"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			refs, err := image.Import(ctx, b.Client, tt.file, "", b.log)
			if !errors.Is(err, runtime.ErrImage) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v; want %q", refs, err, tt.want)
			}
			if left := b.left(ctx, t); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

// A refused import changes nothing of the image that has the name.
func TestRefusedImportKeepsTheOldImage(t *testing.T) {
	ctx, b := newBench(t)
	good := write(t, "x.tar", false, save(t, nil, nil, layerOf(t, python3)).docker(t, "x")...)
	bad := write(t, "x.tar", false, save(t, nil, nil, layerOf(t, tar.Header{Name: "bin/", Typeflag: tar.TypeDir})).docker(t, "x")...)
	if _, err := image.Import(ctx, b.Client, good, "", b.log); err != nil {
		t.Fatal(err)
	}
	before, err := image.Ensure(ctx, b.Client, "x", b.log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := image.Import(ctx, b.Client, bad, "", b.log); err == nil {
		t.Fatal("the bad image was taken")
	}
	after, err := image.Ensure(ctx, b.Client, "x", b.log)
	if err != nil || after.ChainID != before.ChainID {
		t.Errorf("before %v, after %v, %v", before, after, err)
	}
}

// What an image's archive names outside its root stays inside, and what would give powers is left out.
func TestHostileImageStaysInside(t *testing.T) {
	ctx, b := newBench(t)
	outside := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(outside, []byte("untouched"), 0o666); err != nil {
		t.Fatal(err)
	}
	hostile := save(t, nil, nil, layerOf(t, python3,
		tar.Header{Name: "../../../../../../../../../.." + outside, Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: outside, Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "escape", Typeflag: tar.TypeSymlink, Linkname: filepath.Dir(outside)},
		tar.Header{Name: "escape/victim", Typeflag: tar.TypeReg, Mode: 0o644},
		tar.Header{Name: "opt", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		tar.Header{Name: "workspace", Typeflag: tar.TypeReg, Mode: 0o666},
		tar.Header{Name: "dev/sda", Typeflag: tar.TypeBlock, Mode: 0o666, Devmajor: 8},
	))
	refs, err := image.Import(ctx, b.Client, write(t, "h.tar", false, hostile.docker(t, "h")...), "", b.log)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "untouched" {
		t.Errorf("outside is %q, %v", data, err)
	}
	ready, err := image.Ensure(ctx, b.Client, refs[0], b.log)
	if err != nil {
		t.Fatal(err)
	}
	b.checkGuest(ctx, t, ready, false)
	if got := b.view(ctx, t, ready, `ls -A "$R/dev" | wc -l`); strings.TrimSpace(got) != "0" {
		t.Errorf("the image brought devices: %s", got)
	}
}

func TestImportEndsWithItsContext(t *testing.T) {
	ctx, b := newBench(t)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := image.Import(cancelled, b.Client, write(t, "x.tar", false, save(t, nil, nil, layerOf(t, python3)).docker(t)...), "", b.log)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := b.left(ctx, t); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
