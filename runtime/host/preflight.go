package host

// Preflight looks at what sandboxes of uid need of this machine, with the programs of the private daemon in binDir. It
// takes well under a second and leaves nothing behind. The checks come in the order in which things build on each other,
// so that the first failure is the cause of those after it.
func Preflight(uid int, binDir string) []Check { return realHost.preflight(uid, binDir, "") }

// PreflightIn is Preflight with the state in a directory that was configured.
func PreflightIn(uid int, binDir, stateDir string) []Check {
	return realHost.preflight(uid, binDir, stateDir)
}

// MachineChecks are the checks of Preflight that concern no account in particular.
func MachineChecks(uid int, binDir string) []Check { return realHost.machineChecks(uid, binDir) }

func (h machine) preflight(uid int, binDir, stateDir string) []Check {
	tried := make(chan []Check, 1)
	go func() { tried <- h.state(uid, stateDir) }() // starts a process: the other checks are done before that has ended
	checks := h.machineChecks(uid, binDir)
	checks = append(checks, h.subIDs(uid), h.binaries(uid, binDir))
	checks = append(checks, h.groups(uid)...)
	return append(checks, <-tried...)
}

func (h machine) machineChecks(uid int, binDir string) []Check {
	return []Check{
		h.kernel(),
		h.seccomp(),
		h.userns(),
		h.privileges(),
		h.idMapTools(),
		h.appArmor(uid, binDir),
	}
}
