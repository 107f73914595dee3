package image

import (
	"io/fs"
	"path"
	"strings"

	"github.com/thawpool/thawpool/runtime/guest"
)

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
		dirEntry(inside(guest.Workspace), 0o755),
		dirEntry(inside(path.Dir(guest.Dir)), 0o755),
		dirEntry(inside(guest.Dir), 0o755),
	}
}

// inside turns a path of the sandbox into one of a layer.
func inside(name string) string { return strings.TrimPrefix(name, "/") }
