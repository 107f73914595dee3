package image

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rs/zerolog"
)

// FuzzArchive: whatever file is imported, it is refused with a reason, or every image in it has a full name that is not
// one of our own, and its content is what its digests say.
func FuzzArchive(f *testing.F) {
	f.Setenv("CONTAINERD_DISABLE_PIGZ", "1") // or every gzip starts a process
	f.Add(plainOCI(f, "x:1"))
	f.Add(plainOCI(f, repository+"python"))
	rootfs, err := io.ReadAll(archiveOf(f, "d usr/bin", "f usr/bin/python3"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(rootfs)
	f.Add(membersOf(f, "manifest.json", `[{"Config":"c.json","RepoTags":["x:1","../y"],"Layers":["l.tar"]}]`,
		"c.json", `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:00"]}}`, "l.tar", string(rootfs)))
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<20 {
			return
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "file.tar")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		importInto(t, dir, file)
	})
}

// importInto does what Import does up to the unpacking, with a content store of its own.
func importInto(t *testing.T, dir, file string) {
	t.Helper()
	isArchive, err := detect(t.Context(), file)
	if err != nil {
		return
	}
	store, err := local.NewLabeledStore(dir, labels{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stores{content: store, platform: platforms.Only(platforms.DefaultSpec()), log: zerolog.Nop()}
	named, err := s.readImages(t.Context(), file, "", isArchive)
	if err != nil {
		return
	}
	for _, image := range named {
		if full, err := normalize(image.Name); err != nil || full != image.Name || strings.HasPrefix(full, repository) {
			t.Errorf("named %q", image.Name)
		}
		handler := images.FilterPlatforms(images.ChildrenHandler(smallBlobs{store}), s.platform)
		if err := images.Walk(t.Context(), handler, image.Target); err != nil {
			continue
		}
		manifest, config, err := s.manifestOf(t.Context(), image.Target)
		if err != nil {
			continue
		}
		found, err := findPython(t.Context(), store, config, manifest.Layers)
		if err == nil && !strings.HasPrefix(found, "/") {
			t.Errorf("found %q", found)
		}
	}
}

// labels keeps no label: the store needs a place for them, the test none of them.
type labels struct{}

func (labels) Get(digest.Digest) (map[string]string, error)                           { return nil, nil }
func (labels) Set(digest.Digest, map[string]string) error                             { return nil }
func (labels) Update(_ digest.Digest, l map[string]string) (map[string]string, error) { return l, nil }

// plainOCI is an OCI layout with one image of the name.
func plainOCI(t testing.TB, name string) []byte {
	t.Helper()
	layer, err := io.ReadAll(archiveOf(t, "d usr/bin", "f usr/bin/python3"))
	if err != nil {
		t.Fatal(err)
	}
	var members []string
	put := func(mediaType string, data []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		members = append(members, "blobs/sha256/"+d.Digest.Encoded(), string(data))
		return d
	}
	doc := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	blob := put(ocispec.MediaTypeImageLayer, layer)
	config := put(ocispec.MediaTypeImageConfig, doc(ocispec.Image{Platform: platforms.DefaultSpec(),
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{blob.Digest}}}))
	manifest := put(ocispec.MediaTypeImageManifest, doc(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{blob}}))
	manifest.Annotations = map[string]string{images.AnnotationImageName: name}
	index := doc(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: []ocispec.Descriptor{manifest}})
	return membersOf(t, append([]string{"oci-layout", `{"imageLayoutVersion":"1.0.0"}`, "index.json", string(index)}, members...)...)
}

// membersOf is an archive of the files: name, content, name, content.
func membersOf(t testing.TB, members ...string) []byte {
	t.Helper()
	var entries []entry
	for i := 0; i+1 < len(members); i += 2 {
		entries = append(entries, dataEntry(members[i], []byte(members[i+1])))
	}
	var out bytes.Buffer
	if err := writeLayer(&out, entries); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
