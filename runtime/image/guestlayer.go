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
// compiler, which is not nil for the default image only, the guest comes precompiled.
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
	compiled, err := compileData(ctx, compiler, entries)
	return append(entries, compiled...), err
}

// compileData compiles the Python sources among entries that have their content in memory.
func compileData(ctx context.Context, compiler *lazyInterpreter, entries []entry) ([]entry, error) {
	p, err := compiler.get()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(p.dir, "guest-")
	if err != nil {
		return nil, fmt.Errorf("compile the guest: %w", err)
	}
	var sources []source
	for i, e := range entries {
		if !strings.HasSuffix(e.path, ".py") {
			continue
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.py", i))
		if err := os.WriteFile(file, e.data, 0o600); err != nil {
			return nil, fmt.Errorf("compile the guest: %w", err)
		}
		sources = append(sources, source{file: file, display: "/" + e.path})
	}
	return p.compile(ctx, sources)
}
