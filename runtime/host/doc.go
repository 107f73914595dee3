// Package host knows the machine: its cgroup hierarchies, user namespaces and subordinate ids. It inspects them (the
// checks of doctor and preflight), names what is missing with the command that mends it, and handles control groups that
// were delegated to an ordinary user. It knows nothing of containers, images or daemons.
//
// Everything here works as the unprivileged owner of a delegated tree and from outside the user namespace; only package
// prepare below it, the work of `thawpool setup`, needs root.
package host
