package image

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
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

// settleLease is always the same: if containerd dies in the middle, the next one's settling takes it over and gives it back.
const settleLease = "thawpool-settle"

func (s *stores) settle(ctx context.Context) error {
	manager := s.client.LeasesService()
	_, err := manager.Create(ctx, leases.WithID(settleLease), leases.WithExpiration(leaseExpiry))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return err
	}
	_, err = s.snapshots.Prepare(leases.WithLease(ctx, settleLease), settleLease+"-"+rand.Text(), "")
	return errors.Join(err, manager.Delete(ctx, leases.Lease{ID: settleLease}, leases.SynchronousDelete))
}
