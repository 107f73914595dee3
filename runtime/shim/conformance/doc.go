// Package conformance runs containerd's own client integration suite against our shim.
package conformance
