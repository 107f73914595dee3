// Command containerd-shim-thawpool-v1 is thawpool's containerd shim; see package shim.
package main

import "github.com/thawpool/thawpool/runtime/shim"

func main() { shim.Run() }
