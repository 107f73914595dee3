package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/rs/zerolog"
)

const (
	suffix = ".json"
	// lockRetry is how often a lock that another process holds is tried; it is held for one small file's write.
	lockRetry = 2 * time.Millisecond
	// sweepWait bounds the wait for the lock at Open; the sweep can wait for another start.
	sweepWait = 5 * time.Second
)

// dir is a directory of JSON files. Names are made by this package and hold no separator.
type dir struct {
	path string
	log  zerolog.Logger
	turn chan struct{} // capacity 1: this process's goroutines queue here and not at the file lock
}

// temp is where files are written before they take their place: on the same file system.
func (d *dir) temp() string { return filepath.Join(d.path, ".new") }

// locked runs change while no other goroutine or process changes the directory.
func (d *dir) locked(ctx context.Context, change func() error) error {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return fmt.Errorf("lock %s: %w", d.path, ctx.Err())
	}
	lock := flock.New(filepath.Join(d.path, ".lock"),
		flock.SetFlag(os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("lock %s: %w", d.path, err)
	}
	defer func() {
		if err := lock.Close(); err != nil {
			d.log.Warn().Err(err).Msg("unlocking the store")
		}
	}()
	return change()
}

// sweep removes what killed writers left. Whoever writes holds the lock, so all of it is dead.
func (d *dir) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), sweepWait)
	defer cancel()
	return d.locked(ctx, func() error {
		entries, err := os.ReadDir(d.temp())
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := os.Remove(filepath.Join(d.temp(), e.Name())); err != nil {
				return err
			}
		}
		return nil
	})
}

// put replaces a file. A symlink of that name is replaced, not followed.
func (d *dir) put(name string, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	f, err := renameio.NewPendingFile(filepath.Join(d.path, name), renameio.WithTempDir(d.temp()), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // nothing to do once replaced, and the sweep's work otherwise
	if _, err := f.Write(b.Bytes()); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// open opens a file for reading, never through a symlink and never anything but a regular file.
func (d *dir) open(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(d.path, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: it is a symlink", ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is not a regular file", ErrDamaged)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// get reads a file of at most limit bytes into v. ErrDamaged is its error when the content is not what put writes.
func (d *dir) get(name string, limit int64, v any) error {
	f, err := d.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return err
	case int64(len(raw)) > limit:
		return fmt.Errorf("%w: it is too large", ErrDamaged)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// setAside moves a damaged file out of the way, where a person can look at it. The caller holds the lock and has read
// the file under it.
func (d *dir) setAside(name string, cause error) error {
	aside := name + ".damaged"
	if err := os.Rename(filepath.Join(d.path, name), filepath.Join(d.path, aside)); err != nil {
		return errors.Join(cause, err)
	}
	d.log.Warn().Err(cause).Str("file", filepath.Join(d.path, aside)).Msg("damaged file is set aside")
	return fmt.Errorf("%w; the file is kept as %s", cause, aside)
}

// list gives the files there are, with their sizes.
func (d *dir) list() (map[string]int64, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	files := make(map[string]int64, len(entries))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if info, err := e.Info(); err == nil { // gone meanwhile otherwise
			files[e.Name()] = info.Size()
		}
	}
	return files, nil
}

// remove deletes a file and tells whether there was one.
func (d *dir) remove(name string) (bool, error) {
	err := os.Remove(filepath.Join(d.path, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
