package config

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// abandonedAfter is far longer than a write takes: a half-written file of that age has lost its writer.
const abandonedAfter = time.Minute

// Replace writes a file of mode 0600 of which readers see the old or the new content. The new one is written beside it, not in
// TMPDIR: there nobody would look for what a writer that was killed has left. Here the next one of this file removes it.
func Replace(path string, content []byte) error {
	dir, name := filepath.Dir(path), filepath.Base(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "."+name) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
			_ = os.Remove(filepath.Join(dir, e.Name())) // only saves space
		}
	}
	return renameio.WriteFile(path, content, 0o600, renameio.WithTempDir(dir))
}
