package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/thawpool/thawpool/runtime"
)

// recipe is the version of how the default image is put together. It must grow with every change to what goes into it,
// but for what keyOf reads.
const recipe = 3

// repository holds the names of the images that are made here. The top-level name is reserved for local use, so none of
// them can be a registry's.
const repository = "thawpool.local/"

// defaultEnv is the environment of the default image.
var defaultEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}

// defaultKey changes whenever the default image would: with the embedded Python, the recipe or the host's C library. It
// reads the library (about 3 MiB) and nothing else.
var defaultKey = sync.OnceValues(func() (string, error) { return keyOf(newLibcFinder("/")) })

func keyOf(finder *libcFinder) (string, error) {
	libs, err := finder.known()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	hash.Write(fmt.Appendf(nil, "recipe %d\npython %s %s\n", recipe, pythonVersion(), goruntime.GOARCH))
	hash.Write(zoneinfo)
	for _, lib := range libs {
		sum, err := sumFile(lib.path)
		if err != nil {
			return "", noLibc(err)
		}
		hash.Write(fmt.Appendf(nil, "%s %x\n", lib.name, sum))
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func sumFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	return hash.Sum(nil), err
}

// defaultName is the image record of the default image with a key. The tag says which Python it holds.
func defaultName(key string) string {
	release, _, _ := strings.Cut(pythonVersion(), "-")
	return repository + "python:" + release + "-" + key[:12]
}

// defaultBase returns the default image, made if it is not there. p is extracted when it is needed.
func (s *stores) defaultBase(ctx context.Context, key string, p *lazyInterpreter) (images.Image, error) {
	name := defaultName(key)
	record, err := s.images.Get(ctx, name)
	if err == nil {
		_, _, err = s.manifestOf(ctx, record.Target)
	}
	if err == nil || !errdefs.IsNotFound(err) {
		return record, err
	}
	start := time.Now()
	s.log.Info().Str("image", name).Msg("making the default image from the embedded Python, once")
	record, err = s.buildDefault(ctx, name, key, p)
	if err != nil {
		return record, fmt.Errorf("make the default image: %w", err)
	}
	s.log.Info().Str("image", name).Dur("took", time.Since(start)).Msg("default image is made")
	return record, nil
}

// buildDefault writes the default image and its record. The caller holds a lease.
func (s *stores) buildDefault(ctx context.Context, name, key string, p *lazyInterpreter) (images.Image, error) {
	interpreter, err := p.get()
	if err != nil {
		return images.Image{}, err
	}
	entries, err := rootEntries(ctx, interpreter, newLibcFinder("/"))
	if err != nil {
		return images.Image{}, noExec(err, interpreter.dir)
	}
	layer, err := putLayer(ctx, s.content, func(w io.Writer) error { return writeLayer(w, entries) })
	if err != nil {
		return images.Image{}, err
	}
	target, err := putImage(ctx, s.content, defaultConfig(layer), []ocispec.Descriptor{layer.blob})
	if err != nil {
		return images.Image{}, err
	}
	return s.record(ctx, images.Image{Name: name, Target: target, Labels: map[string]string{labelDefault: key}})
}

func defaultConfig(layer storedLayer) ocispec.Image {
	return ocispec.Image{
		Created:  &layerTime,
		Platform: platforms.DefaultSpec(),
		Config: ocispec.ImageConfig{
			User:       "65534:65534",
			Env:        defaultEnv,
			Cmd:        []string{path.Join("/", pythonPrefix, "bin", "python3")},
			WorkingDir: "/workspace",
		},
		RootFS:  ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.diff}},
		History: []ocispec.History{{Created: &layerTime, CreatedBy: "thawpool: embedded CPython " + pythonVersion()}},
	}
}

// noExec explains the one common way in which the extracted interpreter does not start.
func noExec(err error, dir string) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return runtime.WithHint(err, fmt.Sprintf(
		"programs in %s cannot run; set XDG_CACHE_HOME to a directory on a filesystem without noexec", filepath.Dir(dir)))
}

// staleAfter is far more than a build takes, so that an extracted interpreter of that age has no owner.
const staleAfter = time.Hour

// A lazyInterpreter is extracted at its first use. It serves one goroutine.
type lazyInterpreter struct{ *interpreter }

// get extracts the interpreter. Leftovers of builds that were killed go first.
func (l *lazyInterpreter) get() (*interpreter, error) {
	if l.interpreter != nil {
		return l.interpreter, nil
	}
	parent, err := workDir()
	if err != nil {
		parent = os.TempDir() // no home: a directory of its own there is as good
	} else if stale, err := filepath.Glob(filepath.Join(parent, "python-*")); err == nil {
		for _, dir := range stale {
			if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > staleAfter {
				_ = os.RemoveAll(dir) // only saves space
			}
		}
	}
	l.interpreter, err = extractPython(parent)
	return l.interpreter, err
}

func (l *lazyInterpreter) close() error {
	if l.interpreter == nil {
		return nil
	}
	return l.interpreter.close()
}
