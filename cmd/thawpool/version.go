package main

import (
	"fmt"
	goruntime "runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker; without it the module's own version is shown.
var version = "dev"

func newVersionCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Annotations: map[string]string{unconfigured: "yes"},
		Short:       "Print the version",
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "thawpool %s %s/%s %s\n", versionText(), goruntime.GOOS, goruntime.GOARCH, goruntime.Version())
			return err
		},
	}
}

func versionText() string {
	if version != "dev" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}
