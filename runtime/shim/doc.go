// Package shim is a containerd shim with libcontainer in its own process: containerd's Task API v3 and its Sandbox API
// over ttrpc. It starts no runc, and a task that joins a running shim through the Sandbox API starts no shim either, so
// that one fresh container costs one process of its own and its init.
//
// Three binaries belong together and stand side by side:
//
//	containerd-shim-thawpool-v1  the shim (this package); runtime name io.containerd.thawpool.v1
//	thawpool-init                libcontainer's init alone: a small static binary in place of a copy of the shim
//	thawpool-delete              what containerd runs at every task delete of a joined task (see cmd/thawpool-delete)
//
// The shim serves any OCI bundle of containerd's. What it does not do: checkpoint, and "binary://" log URIs.
package shim
