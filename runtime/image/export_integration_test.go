//go:build integration

package image

import (
	"context"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/rs/zerolog"
)

// What the tests from outside this package need of its inside.
const (
	LabelBase    = labelBase
	LabelDefault = labelDefault
	Repository   = repository
)

// RemoveTestRoot removes what the tests of this package share.
func RemoveTestRoot() error { return removeTestRoot() }

// Snapshotter is the one that images are unpacked to.
func Snapshotter(ctx context.Context, c *containerd.Client) (string, error) {
	return snapshotterOf(ctx, c)
}

// DerivedName is the record of what is derived from the default image, DefaultName that of the default image itself.
func DerivedName() (string, error) {
	key, err := defaultKey()
	if err != nil {
		return "", err
	}
	return base{ref: Default, key: key}.derivedName(), nil
}

// DefaultName is the record of the default image.
func DefaultName() (string, error) {
	key, err := defaultKey()
	return defaultName(key), err
}

// RemoveSuperseded removes what is no longer current.
func RemoveSuperseded(ctx context.Context, c *containerd.Client, ref, current string, log zerolog.Logger) error {
	s, err := newStores(ctx, c, log)
	if err == nil {
		s.removeSuperseded(ctx, ref, current)
	}
	return err
}

// Record creates or replaces an image record.
func Record(ctx context.Context, c *containerd.Client, record images.Image, log zerolog.Logger) error {
	s, err := newStores(ctx, c, log)
	if err == nil {
		_, err = s.record(ctx, record)
	}
	return err
}

// SettleLease is held while a snapshotter is settled.
const SettleLease = settleLease
