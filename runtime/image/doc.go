// Package image makes root filesystems that sandboxes can stand on, inside containerd's own stores.
//
// The default image is made here: CPython from the binary itself, the host's C library beside it, precompiled and
// written straight into the content store as an OCI image. Any other image comes by Import or Pull. To each of them
// Ensure adds one small layer, the guest runner and the directories that mounts need, so that a read-only view of the
// result is a whole sandbox root with no writable layer on top.
//
// Everything goes through containerd's API: the process that calls this package stands outside the daemon's user and
// mount namespaces and never mounts or unpacks anything itself. The package knows nothing of containers, tasks or MCP.
package image
