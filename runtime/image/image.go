package image

import (
	"context"
	"fmt"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/rs/zerolog"

	"github.com/thawpool/thawpool/runtime"
)

// Ensure makes an image ready and tells how to use it. ref "" or Default is the default image, which is made when it is
// not there yet: a few seconds of work, once. Any other image must have come by Pull or Import before. When nothing has
// changed since the last time it costs a few requests to the daemon.
//
// The snapshot stays until a later Ensure supersedes it while nothing is mounted from it, or the image is removed. A view
// that fails because its parent has gone calls for another Ensure.
//
// Errors wrap runtime.ErrImage, with a hint, when the image is missing or unfit, and runtime.ErrUnavailable when the
// daemon does not answer.
func Ensure(ctx context.Context, c *containerd.Client, ref string, log zerolog.Logger) (Ready, error) {
	s, err := newStores(ctx, c, log)
	if err != nil {
		return Ready{}, err
	}
	ready, err := s.ensure(ctx, ref)
	if err != nil {
		return Ready{}, kind(fmt.Errorf("prepare image %s: %w", display(ref), err))
	}
	return ready, nil
}

// ensure is Ensure before its errors are sorted.
func (s *stores) ensure(ctx context.Context, ref string) (Ready, error) {
	b, err := s.base(ctx, ref)
	if err != nil {
		return Ready{}, err
	}
	name := b.derivedName()
	ready, ok, err := s.lookup(ctx, b.ref, name)
	if err == nil && !ok {
		ready, err = s.make(ctx, b, name)
	}
	if err != nil {
		return Ready{}, err
	}
	s.removeSuperseded(ctx, b.ref, name)
	return ready, nil
}

// make derives an image that was not there a moment ago.
func (s *stores) make(ctx context.Context, b base, name string) (Ready, error) {
	// Another process may be making the same image: the second one waits and finds it done.
	unlock := lockWork(ctx, s.log, lockPatience)
	defer unlock()
	if ready, ok, err := s.lookup(ctx, b.ref, name); ok || err != nil {
		return ready, err
	}
	if err := s.derive(ctx, b, name); err != nil {
		return Ready{}, err
	}
	ready, ok, err := s.lookup(ctx, b.ref, name)
	if err == nil && !ok {
		err = fmt.Errorf("image was removed while it was made: %w", runtime.ErrUnavailable)
	}
	return ready, err
}

// A base is an image before the guest is added.
type base struct {
	ref    string        // Default, or the image record's name
	key    string        // changes when the image does
	target *images.Image // nil for the default image, which is made on demand
}

// base finds out which image a reference means, without making anything.
func (s *stores) base(ctx context.Context, ref string) (base, error) {
	if ref == "" || ref == Default {
		key, err := defaultKey()
		return base{ref: Default, key: key}, err
	}
	record, err := s.get(ctx, ref)
	if err != nil {
		return base{}, err
	}
	return base{ref: record.Name, key: record.Target.Digest.String(), target: &record}, nil
}

// get finds an image that the user named, as written or in its full form.
func (s *stores) get(ctx context.Context, ref string) (images.Image, error) {
	full, err := normalize(ref)
	if err != nil {
		return images.Image{}, err
	}
	record, err := s.images.Get(ctx, full)
	if errdefs.IsNotFound(err) {
		return images.Image{}, runtime.WithHint(fmt.Errorf("%w: it is not here", runtime.ErrImage),
			fmt.Sprintf("thawpool image pull %s, or thawpool image import FILE.tar", ref))
	}
	return record, err
}

// normalize gives a reference its full form: "python" means docker.io/library/python:latest.
func normalize(ref string) (string, error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", runtime.WithHint(fmt.Errorf("%w: %q is no image reference: %w", runtime.ErrImage, ref, err),
			"write it as NAME, NAME:TAG or HOST/NAME@sha256:DIGEST, in lower case")
	}
	return named.String(), nil
}

func display(ref string) string {
	if ref == "" {
		return Default
	}
	return strings.ToValidUTF8(ref, "?")
}

// kind makes sure that an error says which of the runtime's kinds it is.
func kind(err error) error {
	switch {
	case errdefs.IsUnavailable(err), errdefs.IsDeadlineExceeded(err), errdefs.IsCanceled(err):
		return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
	case isKind(err):
		return err
	default:
		return fmt.Errorf("%w: %w", runtime.ErrImage, err)
	}
}
