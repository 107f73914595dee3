// Package daemon starts, finds, watches and stops the private rootless containerd of one user.
//
// A keeper process (Keep, the hidden command "thawpool daemon") is the parent of rootlesskit, which holds containerd,
// its shims and every sandbox in one user, mount, network and pid namespace: when any of them dies, all die, and the
// keeper clears up and starts anew. Ensure finds the keeper that all processes of a user share, or starts it.
//
// Everything lies below one state directory, which containerd sees as /run/thawpool, so that no mount inside a sandbox
// names a path of the host. The package knows nothing of images or of what sandboxes run.
package daemon
