// Package ctrd implements runtime.Runtime and runtime.Sandbox on containerd's client.
//
// A sandbox is a container record, three FIFOs, a task and a control group, all named by its id. The record comes first
// and goes last, and carries the owner's label, so that Sweep can tell whose anything is. All sandboxes of an image
// stand on one read-only view of its snapshot.
//
// It knows nothing of how the daemon is run: a Backend tells where one is, and another is asked for when it is lost.
package ctrd
