package image

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/thawpool/thawpool/runtime"
)

// minMinor is the oldest Python 3 that the runner works with: 3.9.
const minMinor = 9

// maxMinor bounds the search for "python3.N" names. It only has to stay ahead of CPython's releases, one a year.
const maxMinor = 40

// defaultPath is the search path of images that set none, the one that runc and Docker use.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// pythonName takes an interpreter's file name apart: "python3.11", "python3.13t", "python2.7", "pypy3.10".
var pythonName = regexp.MustCompile(`^(?:python|pypy)(\d+)(?:\.(\d+))?`)

// findPython looks into an image's layers for its Python and returns the interpreter's path. It reads headers only:
// that the interpreter works, and its exact version, show when the runner starts in the first sandbox.
func findPython(ctx context.Context, store content.Provider, config ocispec.Image, layers []ocispec.Descriptor) (string, error) {
	t := &tree{}
	for i, layer := range layers {
		if err := readLayer(ctx, store, t, layer, i); err != nil {
			return "", fmt.Errorf("read layer %d of %d: %w", i+1, len(layers), err)
		}
	}
	return t.python(config.Config)
}

func readLayer(ctx context.Context, store content.Provider, t *tree, layer ocispec.Descriptor, number int) error {
	ra, err := store.ReaderAt(ctx, layer)
	if err != nil {
		return err
	}
	defer func() { _ = ra.Close() }()
	stream, err := compression.DecompressStream(content.NewReader(ra))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	return t.addLayer(contextReader{ctx, stream}, number)
}

// python picks the interpreter: what the image itself would start as python3 comes first, then the newest version
// named, then plain python.
func (t *tree) python(config ocispec.ImageConfig) (string, error) {
	dirs := searchPath(config.Env)
	var names []string
	for minor := maxMinor; minor >= minMinor; minor-- {
		names = append(names, "python3."+strconv.Itoa(minor))
	}
	names = append(append([]string{"python3"}, names...), "python", "pypy3")

	var candidates []string
	for _, command := range [][]string{config.Entrypoint, config.Cmd} {
		if len(command) > 0 && path.IsAbs(command[0]) && pythonName.MatchString(path.Base(command[0])) {
			candidates = append(candidates, command[0])
		}
	}
	for _, name := range names {
		for _, dir := range dirs {
			candidates = append(candidates, path.Join(dir, name))
		}
	}
	var old []string
	for _, candidate := range candidates {
		found, real := t.lookup(candidate)
		switch {
		case found == nil || !found.executable:
		case tooOld(path.Base(real)):
			old = append(old, path.Base(real))
		default:
			return candidate, nil
		}
	}
	return "", noPython(dirs, old)
}

func noPython(dirs, old []string) error {
	err := fmt.Errorf("no python3 in %s", strings.Join(dirs, ":"))
	if len(old) > 0 {
		slices.Sort(old)
		err = fmt.Errorf("its Python is too old: %s", strings.Join(slices.Compact(old), ", "))
	}
	return runtime.WithHint(err, "an image needs Python 3.9 or newer, as python3 on its PATH")
}

// tooOld judges an interpreter by its real file name. A name without a version passes.
func tooOld(name string) bool {
	match := pythonName.FindStringSubmatch(name)
	if match == nil {
		return false
	}
	major, err := strconv.Atoi(match[1])
	if err != nil || major > 3 {
		return false
	}
	if major < 3 {
		return true
	}
	minor, err := strconv.Atoi(match[2])
	return err == nil && minor < minMinor
}

// searchPath is the image's PATH, its absolute directories in order.
func searchPath(env []string) []string {
	value := defaultPath
	for _, variable := range env {
		if text, ok := strings.CutPrefix(variable, "PATH="); ok && text != "" {
			value = text
		}
	}
	var dirs []string
	for dir := range strings.SplitSeq(value, ":") {
		if path.IsAbs(dir) && !slices.Contains(dirs, path.Clean(dir)) {
			dirs = append(dirs, path.Clean(dir))
		}
	}
	return dirs
}

// A contextReader ends a long read when its context does.
type contextReader struct {
	ctx context.Context //nolint:containedctx // lives as long as the call that reads
	r   interface{ Read([]byte) (int, error) }
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, errors.Join(err, context.Cause(c.ctx))
	}
	return c.r.Read(p)
}
