package ctrd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/thawpool/thawpool/runtime"
)

// kind turns an error of containerd's into one of the runtime's. What is none of ours stays as it is, with its text:
// another try may help or not.
func kind(err error) error {
	if err == nil {
		return nil
	}
	for _, ours := range []error{runtime.ErrUnavailable, runtime.ErrLost, runtime.ErrUnsupported, runtime.ErrImage} {
		if errors.Is(err, ours) {
			return err
		}
	}
	native := errgrpc.ToNative(err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errdefs.IsCanceled(native), errdefs.IsDeadlineExceeded(native), unavailable(err):
		return fmt.Errorf("%w: %w", runtime.ErrUnavailable, err)
	default:
		return err
	}
}

// expired marks an error as the kind that a deadline gives when the context has ended. containerd hands on a shim's own
// deadline as an unknown error.
func expired(ctx context.Context, err error) error {
	over := ended(ctx)
	if over == nil || errors.Is(err, runtime.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w: %w", runtime.ErrUnavailable, over, err)
}

// ended is why a context is over, also when its own timer is late and the daemon's answer that time is up was faster.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// absent tells whether containerd says that something is not there. Some of its client's errors are raw gRPC, others have
// been translated.
func absent(err error) bool {
	return err != nil && (errdefs.IsNotFound(err) || errdefs.IsNotFound(errgrpc.ToNative(err)))
}

// unavailable tells whether the daemon could not be reached.
func unavailable(err error) bool {
	return err != nil && (errdefs.IsUnavailable(err) || errdefs.IsUnavailable(errgrpc.ToNative(err)))
}

// foreign names the runtime that failed to make a task, when it is not one that comes with us.
func foreign(name string, err error) error {
	if name == RuntimeThawpool || name == RuntimeRunc {
		return err
	}
	err = fmt.Errorf("runtime %s: %w", name, err)
	if strings.Contains(err.Error(), "binary not installed") { // containerd gives no more than the text
		return runtime.WithHint(fmt.Errorf("%w: %w", runtime.ErrUnsupported, err),
			"install that program in a directory of PATH, or leave out --runtime")
	}
	return runtime.WithHint(err, "see what the runtime itself needs on this host, or leave out --runtime")
}
