package host

// Preflight looks at what sandboxes of uid need of this machine, with the programs of the private daemon in binDir. It
// takes well under a second and leaves nothing behind. The checks come in the order in which things build on each other,
// so that the first failure is the cause of those after it.
func Preflight(uid int, binDir string) []Check { return realHost.preflight(uid, binDir) }

func (h machine) preflight(uid int, binDir string) []Check {
	checks := []Check{
		h.kernel(),
		h.seccomp(),
		h.userns(),
		h.privileges(),
		h.idMapTools(),
		h.subIDs(uid),
		h.binaries(uid, binDir),
		h.appArmor(uid, binDir),
	}
	checks = append(checks, h.groups(uid)...)
	return append(checks, h.overlay(uid))
}
