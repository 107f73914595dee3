package host

// Preflight looks at what sandboxes of uid need of this machine, with the binaries of the private daemon in binDir. It
// takes well under a second and changes nothing. The checks come in the order in which things build on each other, so
// that the first failure is the cause of later ones.
func Preflight(uid int, binDir string) []Check {
	return realHost.preflight(uid, binDir)
}

func (h machine) preflight(uid int, binDir string) []Check {
	return []Check{h.cgroups(uid)}
}

func (h machine) cgroups(uid int) Check {
	c := Check{ID: "cgroups", Title: "delegated control groups", Fatal: true}
	base, err := h.delegated(uid)
	if err != nil {
		return c.failed(err)
	}
	return c.passed("%s", base)
}
