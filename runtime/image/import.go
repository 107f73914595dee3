package image

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime"
)

// formatHint says which files can be imported.
const formatHint = "the file must be a tar, compressed or not, from docker save, podman save or an OCI layout, or of a" +
	" whole root filesystem as docker export or mmdebstrap write it"

// Import takes images from a tar file (docker save, OCI layout, or a plain root filesystem; gzip and zstd are undone)
// and makes them ready. It returns their refs. name, when not empty, is the ref for a file that holds one image; without
// it the file's own names are used, and last the file's name. On an error nothing is changed.
func Import(ctx context.Context, c *containerd.Client, file, name string, log zerolog.Logger) ([]string, error) {
	s, err := newStores(ctx, c, log)
	if err != nil {
		return nil, err
	}
	if name != "" {
		if name, err = normalize(name); err != nil {
			return nil, err
		}
	}
	refs, err := s.importFile(ctx, file, name)
	if err != nil {
		return nil, kind(fmt.Errorf("import %s: %w", file, err))
	}
	return refs, nil
}

func (s *stores) importFile(ctx context.Context, file, name string) (_ []string, err error) {
	isArchive, err := detect(ctx, file)
	if err != nil {
		return nil, err
	}
	ctx, release, err := s.withLease(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { release(err == nil) }()
	named, err := s.readImages(ctx, file, name, isArchive)
	if err != nil {
		return nil, err
	}
	refs := make([]string, 0, len(named))
	for _, image := range named {
		if err := s.admit(ctx, image.Name, image.Target); err != nil {
			return nil, fmt.Errorf("image %s: %w", image.Name, err)
		}
		refs = append(refs, image.Name)
	}
	return refs, nil
}

// readImages brings the content of a file into the store and names the images in it. Nothing is recorded yet.
func (s *stores) readImages(ctx context.Context, file, name string, isArchive bool) ([]images.Image, error) {
	stream, err := openArchive(ctx, file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	if !isArchive {
		if name == "" {
			if name, err = nameFromFile(file); err != nil {
				return nil, err
			}
		}
		target, err := s.wrapRootfs(ctx, stream)
		return []images.Image{{Name: name, Target: target}}, err
	}
	index, err := archive.ImportIndex(ctx, s.content, stream)
	if err != nil {
		return nil, runtime.WithHint(fmt.Errorf("read the archive: %w", err), formatHint)
	}
	data, err := content.ReadBlob(ctx, smallBlobs{s.content}, index)
	if err != nil {
		return nil, fmt.Errorf("read its index: %w", err)
	}
	var list ocispec.Index
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, runtime.WithHint(fmt.Errorf("read its index: %w", err), formatHint)
	}
	return nameImages(list.Manifests, file, name)
}

// nameImages gives each image of an archive its ref.
func nameImages(targets []ocispec.Descriptor, file, name string) ([]images.Image, error) {
	if len(targets) == 0 {
		return nil, runtime.WithHint(errors.New("it holds no image"), formatHint)
	}
	distinct := map[digest.Digest]bool{}
	for _, target := range targets {
		distinct[target.Digest] = true
	}
	if name != "" {
		if len(distinct) > 1 {
			return nil, fmt.Errorf("it holds %d images, so they cannot all be named %s", len(distinct), name)
		}
		return []images.Image{{Name: name, Target: targets[0]}}, nil
	}
	var named []images.Image
	for _, target := range targets {
		ref := target.Annotations[images.AnnotationImageName]
		if ref == "" {
			ref = target.Annotations[ocispec.AnnotationRefName]
		}
		// An OCI layout often has only a tag here, "latest" or "3.13": that names no image.
		full, err := normalize(ref)
		if err != nil || !strings.ContainsAny(ref, "/:") {
			if len(distinct) > 1 {
				return nil, fmt.Errorf("it holds %d images and does not name them all", len(distinct))
			}
			if full, err = nameFromFile(file); err != nil {
				return nil, err
			}
		}
		if strings.HasPrefix(full, repository) {
			return nil, fmt.Errorf("the name %s is kept for images that are made here; give --name", full)
		}
		named = append(named, images.Image{Name: full, Target: target})
	}
	return named, nil
}

// wrapRootfs makes a one-layer image of a root filesystem archive.
func (s *stores) wrapRootfs(ctx context.Context, r io.Reader) (ocispec.Descriptor, error) {
	layer, err := putLayer(ctx, s.content, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	config := ocispec.Image{
		Platform: platforms.DefaultSpec(),
		Config:   ocispec.ImageConfig{Env: []string{"PATH=" + defaultPath}},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.diff}},
		History:  []ocispec.History{{CreatedBy: "thawpool: import of a root filesystem"}},
	}
	return putImage(ctx, s.content, config, []ocispec.Descriptor{layer.blob})
}

// detect reads a file's names and tells an image archive from a root filesystem.
func detect(ctx context.Context, file string) (isArchive bool, err error) {
	stream, err := openArchive(ctx, file)
	if err != nil {
		return false, err
	}
	defer func() { _ = stream.Close() }()
	var used int64
	tr := tar.NewReader(&boundedReader{r: stream, left: maxUnpacked, used: &used})
	rootfs := false
	for {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, runtime.WithHint(fmt.Errorf("it is not a readable tar: %w", err), formatHint)
		}
		switch top, _, _ := strings.Cut(strings.TrimPrefix(path.Clean("/"+hdr.Name), "/"), "/"); top {
		case ocispec.ImageLayoutFile, "manifest.json":
			return true, nil
		case "usr", "bin":
			rootfs = true
		}
	}
	if !rootfs {
		return false, runtime.WithHint(errors.New("it holds neither an image nor a root filesystem"), formatHint)
	}
	return false, nil
}

// openArchive opens a tar file and undoes its compression. Closing the stream closes the file.
func openArchive(ctx context.Context, file string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	stream, err := compression.DecompressStream(contextReader{ctx, f})
	if err != nil {
		return nil, errors.Join(runtime.WithHint(fmt.Errorf("it cannot be read: %w", err), formatHint), f.Close())
	}
	return archiveStream{stream, f}, nil
}

type archiveStream struct {
	io.ReadCloser
	file *os.File
}

func (a archiveStream) Close() error { return errors.Join(a.ReadCloser.Close(), a.file.Close()) }

// notInName is what may not stand in the name of an image.
var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// nameFromFile makes a ref of a file's name: "Data Science.tar.gz" becomes docker.io/library/data-science:latest.
func nameFromFile(file string) (string, error) {
	base, _, _ := strings.Cut(strings.ToLower(filepath.Base(file)), ".tar")
	full, err := normalize(strings.Trim(notInName.ReplaceAllString(base, "-"), "-"))
	if err != nil {
		return "", errors.New("the image has no name; give one with --name")
	}
	return full, nil
}
