package main

import (
	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/runtime/daemon"
)

// newDaemonCommand is the keeper of the private containerd. Nobody types it: other commands start it with the flags of
// daemon.Config.Args, and configuration does not matter to it.
func newDaemonCommand() *cobra.Command {
	var c daemon.Config
	cmd := &cobra.Command{
		Use:         "daemon",
		Short:       "Keep the private containerd running (started by other commands when it is needed)",
		Args:        cobra.NoArgs,
		Hidden:      true,
		Annotations: map[string]string{unconfigured: "true"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return daemon.Keep(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&c.StateDir, "state-dir", "", "`directory` of all that the daemon has")
	cmd.Flags().StringVar(&c.BinDir, "bin-dir", "", "`directory` of containerd, rootlesskit and the shims")
	cmd.Flags().DurationVar(&c.Idle, "idle", daemon.DefaultIdle, "`time` without users after which it stops")
	return cmd
}
