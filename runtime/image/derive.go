package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/thawpool/thawpool/runtime/guest"
)

// Labels on our image records.
const (
	labelBase    = "thawpool/base"    // on a derived image: the ref of what it was derived from
	labelPython  = "thawpool/python"  // on a derived image: the interpreter's path
	labelDefault = "thawpool/default" // on a default image: its key
)

// deriveRecipe is the version of how the guest's layer is put together. It must grow with every change to that.
const deriveRecipe = 2

// derivedName is the image record of a base with this program's guest. It is made of what goes in, so that another
// version of base, guest or recipe has another name and the one in use is never changed.
func (b base) derivedName() string {
	hash := sha256.New()
	hash.Write(fmt.Appendf(nil, "recipe %d\nref %s\nbase %s\nguest %s\n", deriveRecipe, b.ref, b.key, guest.Digest()))
	return repository + "sandbox:" + hex.EncodeToString(hash.Sum(nil))[:24]
}

// derive makes the image that sandboxes stand on: the base's layers and one with the guest.
func (s *stores) derive(ctx context.Context, b base, name string) (err error) {
	ctx, release, err := s.withLease(ctx)
	if err != nil {
		return err
	}
	defer func() { release(err == nil) }()
	p := &lazyInterpreter{}
	defer func() { err = errors.Join(err, p.close()) }()

	var source images.Image
	if b.target != nil {
		source = *b.target
	} else if source, err = s.defaultBase(ctx, b.key, p); err != nil {
		return err
	}
	manifest, config, err := s.manifestOf(ctx, source.Target)
	if err != nil {
		return err
	}
	layers := layersOf(manifest)
	interpreter, err := findPython(ctx, s.content, config, layers)
	if err != nil {
		return err
	}
	var compiler *lazyInterpreter
	if b.target == nil {
		compiler = p // only the default image is known to run what this Python compiles
	}
	target, err := s.putDerived(ctx, config, layers, compiler)
	if err != nil {
		return err
	}
	record := images.Image{Name: name, Target: target, Labels: map[string]string{labelBase: b.ref, labelPython: interpreter}}
	if record, err = s.record(ctx, record); err != nil {
		return err
	}
	if err := s.unpack(ctx, record); err != nil {
		return errors.Join(err, s.remove(ctx, name))
	}
	return nil
}

// layersOf lists a manifest's file system layers. Others, such as signatures, are not unpacked.
func layersOf(manifest ocispec.Manifest) []ocispec.Descriptor {
	return slices.DeleteFunc(slices.Clone(manifest.Layers), func(layer ocispec.Descriptor) bool {
		return !images.IsLayerType(layer.MediaType)
	})
}

// putDerived writes the derived image over layers that are in the store.
func (s *stores) putDerived(ctx context.Context, config ocispec.Image, layers []ocispec.Descriptor,
	compiler *lazyInterpreter) (ocispec.Descriptor, error) {
	if len(config.RootFS.DiffIDs) != len(layers) {
		return ocispec.Descriptor{}, fmt.Errorf("its config names %d layers and its manifest %d",
			len(config.RootFS.DiffIDs), len(layers))
	}
	entries, err := guestEntries(ctx, compiler)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layer, err := putLayer(ctx, s.content, func(w io.Writer) error { return writeLayer(w, entries) })
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	config.RootFS.DiffIDs = append(slices.Clone(config.RootFS.DiffIDs), layer.diff)
	config.History = append(slices.Clone(config.History), ocispec.History{Created: &layerTime, CreatedBy: "thawpool: guest"})
	return putImage(ctx, s.content, config, append(slices.Clone(layers), layer.blob))
}

// record creates or replaces an image record.
func (s *stores) record(ctx context.Context, record images.Image) (images.Image, error) {
	created, err := s.images.Create(ctx, record)
	if errdefs.IsAlreadyExists(err) {
		created, err = s.images.Update(ctx, record, "target", "labels")
	}
	if err != nil {
		return created, fmt.Errorf("record image %s: %w", record.Name, err)
	}
	return created, nil
}

// unpack turns an image's layers into snapshots. The daemon does it, inside its user namespace. Each is on the disk before
// it counts: files that a power cut has emptied would stay in it for good.
func (s *stores) unpack(ctx context.Context, record images.Image) error {
	img := containerd.NewImageWithPlatform(s.client, record, s.platform)
	if err := img.Unpack(ctx, s.snapshotter, containerd.WithUnpackApplyOpts(diff.WithSyncFs(true))); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	return nil
}

// remove deletes an image record and, before it returns, all that only this record kept.
func (s *stores) remove(ctx context.Context, name string) error {
	err := s.images.Delete(context.WithoutCancel(ctx), name, images.SynchronousDelete())
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// removeSuperseded deletes what earlier versions derived from the same ref, and earlier default images. An image that a
// sandbox stands on stays; so does its snapshot. Failures are logged: the next call tries again.
func (s *stores) removeSuperseded(ctx context.Context, ref, current string) {
	old, err := s.images.List(ctx, fmt.Sprintf("labels.%q==%q", labelBase, ref))
	if err != nil {
		s.log.Warn().Err(err).Msg("superseded images stay")
		return
	}
	for _, record := range old {
		if record.Name == current {
			continue
		}
		if used, err := s.inUse(ctx, record); err != nil || used {
			s.log.Debug().Err(err).Str("image", record.Name).Msg("superseded image stays in use")
			continue
		}
		s.removeOld(ctx, record.Name)
	}
	if ref == Default {
		s.removeOldDefaults(ctx)
	}
}

// removeOldDefaults deletes default images with another key. What was derived from them has all their layers itself.
func (s *stores) removeOldDefaults(ctx context.Context) {
	key, err := defaultKey()
	if err != nil {
		return // then there is no current one to compare with
	}
	old, err := s.images.List(ctx, fmt.Sprintf("labels.%q!=%q", labelDefault, key))
	if err != nil {
		s.log.Warn().Err(err).Msg("superseded default images stay")
		return
	}
	for _, record := range old {
		if record.Labels[labelDefault] != "" {
			s.removeOld(ctx, record.Name)
		}
	}
}

func (s *stores) removeOld(ctx context.Context, name string) {
	if err := s.images.Delete(ctx, name); err != nil && !errdefs.IsNotFound(err) {
		s.log.Warn().Err(err).Str("image", name).Msg("superseded image stays")
		return
	}
	s.log.Info().Str("image", name).Msg("superseded image removed")
}

// inUse tells whether a sandbox has a snapshot on top of an image.
func (s *stores) inUse(ctx context.Context, record images.Image) (bool, error) {
	_, config, err := s.manifestOf(ctx, record.Target)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	used := false
	filter := fmt.Sprintf("parent==%q", identity.ChainID(config.RootFS.DiffIDs).String())
	err = s.snapshots.Walk(ctx, func(context.Context, snapshots.Info) error {
		used = true
		return nil
	}, filter)
	return used, err
}
