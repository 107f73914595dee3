package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/thawpool/thawpool/runtime/guest"
)

// guestEntries lists the layer that makes an image a sandbox root: the guest below guest.Dir and the mount points. With a
// compiler, which is not nil for the default image only, the guest comes precompiled and with its bundle.
func guestEntries(ctx context.Context, compiler *lazyInterpreter) ([]entry, error) {
	files := guest.Files()
	entries := mountPoints()
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		entries = append(entries, dataEntry(path.Join(inside(guest.Dir), name), data))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the guest's files: %w", err)
	}
	if compiler == nil {
		return entries, nil
	}
	p, err := compiler.get()
	if err != nil {
		return nil, err
	}
	dir, err := p.layGuest()
	if err != nil {
		return nil, err
	}
	var sources []source
	for _, e := range entries {
		if name, ok := strings.CutPrefix(e.path, inside(guest.Dir)+"/"); ok && strings.HasSuffix(name, ".py") {
			sources = append(sources, source{file: filepath.Join(dir, name), display: "/" + e.path})
		}
	}
	compiled, err := p.compile(ctx, sources)
	if err != nil {
		return nil, err
	}
	bundle, err := p.bundle(ctx, dir)
	return append(append(entries, compiled...), bundle), err
}

// bundle is the file that the runner imports most of its modules from. The guest is laid out in dir.
func (p *interpreter) bundle(ctx context.Context, dir string) (entry, error) {
	name := guest.BundlePrefix + p.tag()
	e := entry{path: path.Join(inside(guest.Dir), name), mode: 0o644, from: filepath.Join(dir, name)}
	err := p.script(ctx, nil, bundleScript, dir, e.from, dir+"="+guest.Dir, p.tree()+"="+path.Join("/", pythonPrefix))
	if err != nil {
		return entry{}, fmt.Errorf("bundle the runner's modules: %w", err)
	}
	return e, nil
}

// layGuest lays the guest's files into a directory that close removes.
func (p *interpreter) layGuest() (string, error) {
	dir, err := os.MkdirTemp(p.dir, "guest-")
	if err == nil {
		err = os.CopyFS(dir, guest.Files())
	}
	if err != nil {
		return "", fmt.Errorf("lay the guest out: %w", err)
	}
	return dir, nil
}
