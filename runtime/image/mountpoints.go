package image

import "io/fs"

// GuestDir is where the guest's files are in every sandbox root, read-only and owned by root.
const GuestDir = "/opt/thawpool"

// mountPoints are the directories that a sandbox mounts over. They are part of the image because its root is read-only
// and has no layer above it that a container runtime could make them in. A path that an image has as something else, a
// symlink for example, becomes a directory.
func mountPoints() []entry {
	return []entry{
		dirEntry("dev", 0o755),
		dirEntry("proc", 0o555),
		dirEntry("run", 0o755),
		dirEntry("sys", 0o555),
		dirEntry("tmp", 0o777|fs.ModeSticky),
		dirEntry("workspace", 0o755),
		dirEntry("opt", 0o755),
		dirEntry("opt/thawpool", 0o755),
	}
}
