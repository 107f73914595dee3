package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/spf13/cobra"
)

// profileFlag is for whoever works on the hot path: no user needs it.
const profileFlag = "cpuprofile"

// addCPUProfile lets a command write a CPU profile of its whole run. The account that goes on writes the file.
func addCPUProfile(cmd *cobra.Command) {
	name := cmd.Flags().String(profileFlag, "", "write a CPU profile of the whole run to this `file`")
	_ = cmd.Flags().MarkHidden(profileFlag)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if *name == "" || realRoot() { // root's process is replaced by the account's
			return run(cmd, args)
		}
		f, err := os.Create(*name)
		if err != nil {
			return fmt.Errorf("write the profile: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return run(cmd, args)
	}
}
