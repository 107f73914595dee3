package daemon

import (
	"context"
	"time"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/host"
)

// sweepPatience bounds one sweep: a daemon that hangs is noticed by its health, not here.
const sweepPatience = 30 * time.Second

// sweep removes what users left who are not living any more; with all set, everything. A new containerd remembers the
// containers of the one before, of which nothing runs.
func (k *keeper) sweep(ctx context.Context, all bool, living map[host.Owner]bool) error {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	found, err := ctrd.Sweep(ctx, ctrd.SweepConfig{
		Address: k.layout.socket(),
		FIFODir: k.layout.path("fifo"),
		Group:   host.OpenGroup(k.place.version, k.place.hostPath),
		Alive: func(o host.Owner) bool {
			return !all && (living[o] || o.Alive())
		},
	})
	if found.Any() {
		k.log.Info().Object("found", found).Msg("removed what was left")
	}
	return err
}
