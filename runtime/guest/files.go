package guest

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"sync"
)

// Dir is where the guest's files are inside every sandbox, read-only.
const Dir = "/opt/thawpool"

// Workspace is the writable directory that code starts in; its own file is main.py there.
const Workspace = "/workspace"

// PreloadEnv names modules, separated by commas, that the runner imports besides its own before it forks. A module that
// cannot be imported ends the runner with ExitUnready.
const PreloadEnv = "THAWPOOL_PRELOAD"

// BundlePrefix and the interpreter's cache tag name a file in Dir with the bytecode of what the runner imports. It may be
// missing: then modules come from their own files, which takes a sixth more of a runner's CPU.
const BundlePrefix = "modules."

// WorkspaceEnv overrides Workspace, for a runner outside a sandbox.
const WorkspaceEnv = "THAWPOOL_WORKSPACE"

// ExitUnready is the exit status of a runner that could not become ready. Its stderr says why.
const ExitUnready = 3

//go:embed python/runner.py python/thawpool_runner/*.py python/mcp/*.py
var sources embed.FS

// Files holds the Python files of the guest: what belongs below Dir. The tests are not among them, nor is bytecode: whoever
// lays them into an image compiles them for its interpreter, since a runner without bytecode starts markedly slower.
func Files() fs.FS {
	files, err := fs.Sub(sources, "python")
	if err != nil {
		panic(err) // the directory is named in the embed pattern
	}
	return files
}

// Digest is a hex SHA-256 over the names and contents of Files: it changes whenever the guest does.
var Digest = sync.OnceValue(func() string {
	sum := sha256.New()
	err := fs.WalkDir(Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(Files(), name)
		sum.Write([]byte(name + "\x00"))
		sum.Write(data)
		sum.Write([]byte("\x00"))
		return err
	})
	if err != nil {
		panic(err) // an embedded file is always readable
	}
	return hex.EncodeToString(sum.Sum(nil))
})

// Argv starts the runner with the given interpreter, from dir (Dir inside a sandbox). Isolated mode ignores PYTHON*
// variables, the user's site directory and the current directory; UTF-8 mode does not depend on the image's locales.
func Argv(python, dir string) []string {
	return []string{python, "-I", "-B", "-X", "utf8", dir + "/runner.py"}
}

// Env is the whole environment of a sandbox. Everything that libraries want to write goes to a writable tmpfs. The PYTHON
// variables are for interpreters that the code starts: the runner itself ignores them.
func Env() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + Workspace,
		"TMPDIR=/tmp",
		"XDG_CACHE_HOME=/tmp/.cache",
		"XDG_CONFIG_HOME=/tmp/.config",
		"XDG_DATA_HOME=/tmp/.local/share",
		"MPLCONFIGDIR=/tmp/.cache/matplotlib",
		"LANG=C.UTF-8",
		"TZ=UTC",
		"PYTHONUTF8=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"PYTHONNOUSERSITE=1",
	}
}
