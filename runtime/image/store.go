package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rs/zerolog"
)

// Info is one image that a user can name.
type Info struct {
	Ref     string        `json:"ref"` // in full; Default for the default image
	Digest  digest.Digest `json:"digest"`
	Size    int64         `json:"size"`   // bytes in the content store: the layers as stored, not unpacked
	Python  string        `json:"python"` // interpreter inside; empty before the first Ensure
	Updated time.Time     `json:"updated"`
}

// List returns the images that are here, by ref. What is derived from them is not listed.
func List(ctx context.Context, c *containerd.Client) ([]Info, error) {
	s, err := newStores(ctx, c, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	records, err := s.images.List(ctx)
	if err != nil {
		return nil, kind(fmt.Errorf("list images: %w", err))
	}
	pythons := map[string]string{}
	for _, record := range records {
		if ref, ok := record.Labels[labelBase]; ok {
			pythons[ref] = record.Labels[labelPython]
		}
	}
	var infos []Info
	for _, record := range records {
		if _, derived := record.Labels[labelBase]; derived {
			continue
		}
		info := Info{Ref: record.Name, Digest: record.Target.Digest, Updated: record.UpdatedAt}
		if record.Labels[labelDefault] != "" {
			info.Ref = Default
		}
		info.Python = pythons[info.Ref]
		info.Size, err = record.Size(ctx, smallBlobs{s.content}, s.platform)
		if err != nil && !errdefs.IsNotFound(err) {
			return nil, kind(fmt.Errorf("size of image %s: %w", record.Name, err))
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Ref, b.Ref) })
	return infos, nil
}

// Remove deletes an image and everything derived from it, and returns when the space is free. Sandboxes that stand on it
// live on and keep their snapshot. Removing Default means that the next Ensure makes it again.
func Remove(ctx context.Context, c *containerd.Client, ref string, log zerolog.Logger) error {
	s, err := newStores(ctx, c, log)
	if err != nil {
		return err
	}
	if err := s.removeAll(ctx, ref); err != nil {
		return kind(fmt.Errorf("remove image %s: %w", display(ref), err))
	}
	return nil
}

func (s *stores) removeAll(ctx context.Context, ref string) error {
	filters := []string{fmt.Sprintf("labels.%q==%q", labelBase, Default), fmt.Sprintf("labels.%q", labelDefault)}
	if ref != "" && ref != Default {
		record, err := s.get(ctx, ref)
		if err != nil {
			return err
		}
		filters = []string{fmt.Sprintf("labels.%q==%q", labelBase, record.Name), fmt.Sprintf("name==%q", record.Name)}
	}
	records, err := s.images.List(ctx, filters...)
	if err != nil {
		return err
	}
	var errs []error
	for _, record := range records {
		errs = append(errs, s.remove(ctx, record.Name))
	}
	return errors.Join(errs...)
}

// admit takes an image whose content is in the store, under the caller's lease: it is derived from, which proves that
// it is whole, can be unpacked and has a Python, and only then recorded. So a failure changes nothing.
func (s *stores) admit(ctx context.Context, name string, target ocispec.Descriptor) error {
	handler := images.FilterPlatforms(images.ChildrenHandler(smallBlobs{s.content}), s.platform)
	if err := images.Walk(ctx, images.SetChildrenLabels(s.content, handler), target); err != nil {
		return fmt.Errorf("its content is not whole: %w", err)
	}
	_, config, err := s.manifestOf(ctx, target)
	if err != nil {
		return err
	}
	if p := config.Platform; p.OS != "" && !s.platform.Match(platforms.Normalize(p)) {
		return fmt.Errorf("it is made for %s, not for %s", platforms.Format(p), platforms.DefaultString())
	}
	record := images.Image{Name: name, Target: target}
	b := base{ref: name, key: target.Digest.String(), target: &record}
	derived := b.derivedName()
	if err := s.derive(ctx, b, derived); err != nil {
		return err
	}
	if _, err := s.record(ctx, record); err != nil {
		return errors.Join(err, s.remove(ctx, derived))
	}
	s.removeSuperseded(ctx, name, derived)
	return nil
}
