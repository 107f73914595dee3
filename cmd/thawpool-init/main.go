// Command thawpool-init is libcontainer's init and nothing else, so that starting it costs little. The shim runs it; it
// is of no use by hand.
package main

import (
	"fmt"
	"os"

	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // joins and makes the namespaces before Go starts
)

func main() {
	if len(os.Args) != 2 || os.Args[1] != "init" {
		fmt.Fprintln(os.Stderr, "thawpool-init is started by containerd-shim-thawpool-v1")
		os.Exit(2)
	}
	libcontainer.Init()
}
