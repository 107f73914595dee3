package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/thawpool/thawpool/runtime"
	"github.com/thawpool/thawpool/runtime/ctrd"
)

// inspect prints how a sandbox of the chosen profile is confined, as the kernel has it. As root it goes on as the account.
func (a *app) inspect(ctx context.Context, w io.Writer, asJSON bool) (err error) {
	if realRoot() {
		account, err := findAccount()
		if err != nil {
			return err
		}
		if err := a.diagnoseAs(account); err != nil {
			return err
		}
		return errors.New("the account that runs sandboxes cannot reach this program: run thawpool setup")
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	rt, err := ctrd.New(a.runtimeConfig(a.cfg.Profile, a.cfg.chosen()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	report, err := rt.Inspect(ctx, fmt.Sprintf("tp-doctor-%d", os.Getpid()))
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(w).Encode(report)
	}
	return report.Print(w, runtime.HiddenPaths())
}
