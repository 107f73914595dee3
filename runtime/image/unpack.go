package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"
)

// Unpack writes what sandboxes of the default image stand on, the guest included, into dir as plain files, for whoever
// wants to run the same Python without a sandbox. Everything belongs to the caller and is readable by all. It returns the
// interpreter's absolute path inside.
func Unpack(ctx context.Context, dir string, log zerolog.Logger) (python string, err error) {
	unlock := lockWork(ctx, log, lockPatience)
	defer unlock()
	lazy := &lazyInterpreter{}
	defer func() { err = errors.Join(err, lazy.close()) }()
	p, err := lazy.get()
	if err != nil {
		return "", err
	}
	root, err := rootEntries(ctx, p, newLibcFinder("/"))
	if err != nil {
		return "", noExec(err, p.dir)
	}
	ours, err := guestEntries(ctx, lazy)
	if err != nil {
		return "", err
	}
	entries := withParents(slices.Concat(root, ours))
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) }) // parents first
	for _, e := range entries {
		if err := e.unpack(dir); err != nil {
			return "", fmt.Errorf("unpack %s: %w", e.path, err)
		}
	}
	return path.Join("/", pythonPrefix, "bin", p.name), nil
}

// unpack writes one entry. A directory may be there already: several layers name the mount points.
func (e entry) unpack(dir string) error {
	name := filepath.Join(dir, filepath.FromSlash(e.path))
	switch e.mode.Type() {
	case fs.ModeDir:
		if err := os.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	case fs.ModeSymlink:
		return os.Symlink(e.link, name)
	}
	content, _, err := e.open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, e.mode.Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}
