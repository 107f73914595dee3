package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/actors/ops"
	"github.com/thawpool/thawpool/runtime/daemon"
)

// watchEvery is how often status --watch looks.
const watchEvery = time.Second

// newStatusCommand shows what the processes of this user do now.
func newStatusCommand(a *app) *cobra.Command {
	var watch, asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what the thawpool processes of this user do now",
		Long: "Show what the thawpool processes of this user do now: whether sandboxes can be had, pools, sandboxes, calls and servers.\n" +
			"Calls show where serve was started with --listen. As root it shows those of the service account.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.drop(); err != nil {
				return err
			}
			return showStatus(cmd.Context(), cmd.OutOrStdout(), filepath.Join(a.cfg.StateDir, daemon.StatusDir), watch, asJSON)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again each second until interrupted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array, with --watch one a line")
	return cmd
}

func showStatus(ctx context.Context, w io.Writer, dir string, watch, asJSON bool) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		all, err := ops.Find(ctx, dir)
		if err != nil {
			return err
		}
		switch {
		case asJSON:
			err = json.NewEncoder(w).Encode(all)
		case watch:
			_, err = io.WriteString(w, "\x1b[H\x1b[2J"+statusText(all))
		default:
			_, err = io.WriteString(w, statusText(all))
		}
		if err != nil || !watch {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// statusText is what a person reads.
func statusText(all []ops.Found) string {
	var b strings.Builder
	if len(all) == 0 {
		b.WriteString("no thawpool serves\n")
	}
	for _, f := range all {
		if f.State == nil {
			fmt.Fprintf(&b, "thawpool %d: %s\n", f.PID, f.Error)
			continue
		}
		writeState(&b, f.State)
	}
	return b.String()
}

func writeState(b *strings.Builder, s *ops.State) {
	word := "ready"
	if !s.Health.Ready {
		word = "NOT READY"
	}
	fmt.Fprintf(b, "thawpool %d (%s, up %s): %s\n", s.PID, s.Version, s.At.Sub(s.Started).Round(time.Second), word)
	for _, c := range s.Health.Causes {
		fmt.Fprintf(b, "  ! %s\n", printable(c))
	}
	for _, p := range s.Pools {
		fmt.Fprintf(b, "  pool %s: %d ready of %d, %d booting, %d leased, %d ending, %d wait; calls: %d hit, %d waited, %d cold, %d rejected; boot %.0f ms\n",
			p.Profile, p.Ready, p.Size, p.Booting, p.Leased, p.Destroying, p.Waiting, p.Hits, p.Waits, p.Colds, p.Rejected, p.BootMS)
	}
	for _, x := range s.Boxes {
		fmt.Fprintf(b, "  %-28s %-10s %8s  cpu %6.0f ms  peak %8s  %s\n", x.ID, x.State,
			(time.Duration(x.AgeMS) * time.Millisecond).Round(time.Second), x.CPUMS, units.BytesSize(float64(x.Peak)), x.Request)
	}
	for _, c := range s.InFlight {
		fmt.Fprintf(b, "  call %s: %s for %.1f s, %d inner calls\n", c.ID, c.State, c.TookMS/1000, c.InnerAll)
	}
	for _, v := range s.Servers {
		fmt.Fprintf(b, "  server %s: %s, %d calls, %d failed, mean %.1f ms", printable(v.Name), v.State, v.Calls, v.Failures, v.MeanMS)
		if v.Error != "" {
			fmt.Fprintf(b, "; %s", printable(v.Error))
		}
		b.WriteByte('\n')
	}
}

// printable is one line without what a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
