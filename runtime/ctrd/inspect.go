package ctrd

import (
	"context"
	"errors"
	"fmt"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/inspect"
)

// Inspect boots a sandbox, reads from the kernel how it is confined while it is frozen, and destroys it. id is as for Boot.
func (r *Runtime) Inspect(ctx context.Context, id string) (report inspect.Report, err error) {
	s, err := r.connect(ctx)
	if err != nil {
		return report, fmt.Errorf("inspect sandbox %s: %w", id, err)
	}
	b, err := s.boot(ctx, id)
	if err != nil {
		return report, fmt.Errorf("inspect sandbox %s: %w", id, kind(err))
	}
	defer func() { err = errors.Join(err, b.Destroy(context.WithoutCancel(ctx))) }()
	return inspect.Sandbox(inspect.Subject{Group: b.group, Daemon: s.backend.PID, Paths: runtime.HiddenPaths()})
}
