package image

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A storedLayer is a layer in the content store.
type storedLayer struct {
	blob ocispec.Descriptor // compressed
	diff digest.Digest      // of the uncompressed archive
}

// putLayer streams a layer that write produces into the content store. The caller's lease keeps it until an image
// refers to it.
func putLayer(ctx context.Context, store content.Store, write func(io.Writer) error) (storedLayer, error) {
	ref := "thawpool-layer-" + rand.Text() // unique: what an interrupted write left is never continued
	w, err := content.OpenWriter(ctx, store, content.WithRef(ref))
	if err != nil {
		return storedLayer{}, fmt.Errorf("write layer: %w", err)
	}
	defer func() { _ = w.Close() }()
	layer, err := compressInto(w, write)
	if err != nil {
		return storedLayer{}, fmt.Errorf("write layer: %w", err)
	}
	err = w.Commit(ctx, layer.blob.Size, layer.blob.Digest)
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return storedLayer{}, fmt.Errorf("write layer: %w", err)
	}
	return layer, nil
}

// compressInto writes a layer in zstd form and counts and hashes both forms. The fastest level costs half a second for
// the default image and saves 60 % of its 54 MiB.
func compressInto(w io.Writer, write func(io.Writer) error) (storedLayer, error) {
	blob, diff := digest.Canonical.Digester(), digest.Canonical.Digester()
	size := &counter{}
	// One goroutine: the bytes must not depend on how many processors there are.
	z, err := zstd.NewWriter(io.MultiWriter(w, blob.Hash(), size), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1))
	if err != nil {
		return storedLayer{}, err
	}
	if err := write(io.MultiWriter(z, diff.Hash())); err != nil {
		return storedLayer{}, err
	}
	if err := z.Close(); err != nil {
		return storedLayer{}, err
	}
	return storedLayer{
		blob: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: blob.Digest(), Size: size.bytes},
		diff: diff.Digest(),
	}, nil
}

type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// putJSON writes a document into the content store.
func putJSON(ctx context.Context, store content.Store, mediaType string, doc any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write %s: %w", mediaType, err)
	}
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	ref := "thawpool-" + desc.Digest.String()
	if err := content.WriteBlob(ctx, store, ref, bytes.NewReader(data), desc); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write %s: %w", mediaType, err)
	}
	return desc, nil
}

// putImage writes config and manifest over layers that are in the store, and ties them all to the manifest, so that the
// garbage collector keeps them as long as an image record names it.
func putImage(ctx context.Context, store content.Store, config ocispec.Image, layers []ocispec.Descriptor) (ocispec.Descriptor, error) {
	configDesc, err := putJSON(ctx, store, ocispec.MediaTypeImageConfig, config)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    configDesc,
		Layers:    layers,
	}
	desc, err := putJSON(ctx, store, ocispec.MediaTypeImageManifest, manifest)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc.Platform = &config.Platform
	handler := images.SetChildrenLabels(store, images.ChildrenHandler(store))
	if err := images.Walk(ctx, handler, desc); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("tie the image's content together: %w", err)
	}
	return desc, nil
}
