package image

import (
	"context"
	"fmt"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/thawpool/thawpool/runtime"
)

// pullStreams is how many blobs are fetched at once, as other clients do.
const pullStreams = 3

// Pull fetches an image for this machine's platform from its registry and makes it ready, and returns its full ref. The
// caller's process does the fetching: the daemon has no network. Registries on localhost are spoken to without TLS,
// as Docker does. On an error nothing is changed.
func Pull(ctx context.Context, c *containerd.Client, ref string, log zerolog.Logger) (string, error) {
	s, err := newStores(ctx, c, log)
	if err != nil {
		return "", err
	}
	full, err := normalize(ref)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(full, repository) {
		return "", runtime.WithHint(fmt.Errorf("%w: %s is made here", runtime.ErrImage, full),
			"nothing need be done: the default image is made at first use")
	}
	if err := s.pull(ctx, full); err != nil {
		return "", kind(fmt.Errorf("pull image %s: %w", full, err))
	}
	return full, nil
}

func (s *stores) pull(ctx context.Context, full string) (err error) {
	ctx, release, err := s.withLease(ctx)
	if err != nil {
		return err
	}
	defer func() { release(err == nil) }()
	resolver := docker.NewResolver(docker.ResolverOptions{
		Hosts: docker.ConfigureDefaultRegistries(docker.WithPlainHTTP(docker.MatchLocalhost)),
	})
	name, target, err := resolver.Resolve(ctx, full)
	if err != nil {
		return runtime.WithHint(err, "check the name, and that the registry can be reached; an image can also come from a"+
			" file: thawpool image import FILE.tar")
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return err
	}
	if err := s.fetch(ctx, fetcher, target); err != nil {
		return err
	}
	return s.admit(ctx, full, target)
}

// fetch downloads an image's documents and the layers for this platform.
func (s *stores) fetch(ctx context.Context, fetcher remotes.Fetcher, target ocispec.Descriptor) error {
	children := images.SetChildrenLabels(s.content, images.ChildrenHandler(smallBlobs{s.content}))
	children = images.FilterPlatforms(children, s.platform)
	children = images.LimitManifests(children, s.platform, 1)
	handler := images.Handlers(remotes.FetchHandler(s.content, fetcher), children)
	return images.Dispatch(ctx, handler, semaphore.NewWeighted(pullStreams), target)
}
