package image

import (
	"context"
	"errors"
	"fmt"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/rs/zerolog"
)

// Settle makes the snapshotter forget what containerd's own records do not know. The snapshotter syncs its notes to disk
// and a private containerd does not: so after a power cut there may be layers and views that the records have forgotten,
// and new ones would get the same numbers and be refused. Only a collection compares the two, and only when a snapshot has
// gone; so one is made for it.
func Settle(ctx context.Context, c *containerd.Client) error {
	s, err := newStores(ctx, c, zerolog.Nop())
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return kind(fmt.Errorf("settle the snapshotter: %w", err))
	}
	return nil
}

func (s *stores) settle(ctx context.Context) error {
	ctx, _, err := s.client.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(leaseExpiry))
	if err != nil {
		return err
	}
	id, _ := leases.FromContext(ctx) // as good a name as any, and new
	_, err = s.snapshots.Prepare(ctx, "thawpool-settle-"+id, "")
	return errors.Join(err, s.client.LeasesService().Delete(ctx, leases.Lease{ID: id}, leases.SynchronousDelete))
}
