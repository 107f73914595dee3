package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thawpool/thawpool/actors"
	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/local"
)

// liveTime bounds doctor's last checks: a first look makes the image.
const liveTime = 2 * time.Minute

// liveChecks are doctor's checks that need the daemon: it, the image, and a real sandbox.
func (a *app) liveChecks(ctx context.Context) []host.Check {
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	daemonCheck := host.Check{ID: "daemon", Title: "containerd", Fatal: true}
	d, err := local.Daemon(ctx, a.local())
	if err != nil {
		return []host.Check{failedCheck(daemonCheck, err)}
	}
	defer d.Close()
	daemonCheck.OK, daemonCheck.Detail = true, d.Address()
	imageCheck := host.Check{ID: "image", Title: "image " + a.cfg.chosen().Image, Fatal: true}
	b, err := a.connect(ctx, a.cfg.Profile, a.cfg.chosen().Image)
	if err != nil {
		return []host.Check{daemonCheck, failedCheck(imageCheck, err)}
	}
	defer b.Close()
	imageCheck.OK, imageCheck.Detail = true, b.Image.Digest.String()
	return []host.Check{daemonCheck, imageCheck, a.sandboxCheck(ctx)}
}

// sandboxCheck boots, freezes, thaws and runs a real sandbox.
func (a *app) sandboxCheck(ctx context.Context) host.Check {
	check := host.Check{ID: "sandbox", Title: "a sandbox booted, frozen, thawed and run", Fatal: true}
	a.onlyOne()
	s, err := a.tryOpen(ctx)
	if err != nil {
		return failedCheck(check, err)
	}
	began := time.Now()
	res := s.Run(ctx, actors.Request{ID: "doctor", Code: "print(6 * 7)", Queued: began})
	if err := a.closeAll(ctx, s, stopTime); err != nil {
		return failedCheck(check, err)
	}
	if res.Status != actors.StatusSuccess || res.Stdout != "42\n" {
		return failedCheck(check, fmt.Errorf("it answered %s %q", res.Status, compactCause(res)))
	}
	check.OK = true
	check.Detail = fmt.Sprintf("%.0f ms from nothing, of which thaw %.1f ms and run %.1f ms",
		float64(time.Since(began).Milliseconds()), res.Receipt.ThawMS, res.Receipt.RunMS)
	return check
}

func compactCause(res actors.Result) string {
	if res.Error != nil {
		return res.Error.Message
	}
	return res.Stdout
}

// failedCheck gives the check its cause, and the mend that the error knows.
func failedCheck(c host.Check, err error) host.Check {
	c.OK, c.Cause = false, err.Error()
	var hint *runtime.HintError
	if errors.As(err, &hint) {
		c.Cause, c.Fix = hint.Err.Error(), hint.Hint
	}
	return c
}
