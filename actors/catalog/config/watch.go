package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"
)

const (
	// settle is how long files must be quiet before they are read: editors write in several steps.
	settle = 150 * time.Millisecond
	// patience is how long they may stay unquiet.
	patience = 2 * time.Second
	// look is how often files are looked at without a notice: network file systems and targets of symlinks give none.
	look = 5 * time.Second
)

// Watch loads src, gives the result to take, and does so again each time the result has changed, until ctx ends. It
// returns once the first result is taken; wait ends when no more will come.
func Watch(ctx context.Context, src Sources, log zerolog.Logger, take func(Result)) (wait func()) {
	w := &watcher{src: src, log: log, take: take}
	w.load()
	events, errs, closeEvents := w.notify()
	var done sync.WaitGroup
	done.Go(func() {
		defer closeEvents()
		w.run(ctx, events, errs)
	})
	return done.Wait
}

type watcher struct {
	src  Sources
	log  zerolog.Logger
	take func(Result)

	fs    *fsnotify.Watcher // nil when the system gives none
	dirs  map[string]bool   // watched
	state string            // of all files, as last read
	last  string            // the last result, as far as it can change
}

// notify opens the system's notices. Without them the looks alone find changes, only later.
func (w *watcher) notify() (<-chan fsnotify.Event, <-chan error, func()) {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn().Err(err).Dur("every", look).Msg("no notices of changed files, looking instead")
		return nil, nil, func() {}
	}
	w.fs, w.dirs = fs, map[string]bool{}
	w.watch()
	return fs.Events, fs.Errors, func() {
		if err := fs.Close(); err != nil {
			w.log.Debug().Err(err).Msg("closing notices of changed files")
		}
	}
}

// watch asks for notices of every directory that holds, or could come to hold, a file that is read. Directories are
// watched and not files, because most editors replace a file.
func (w *watcher) watch() {
	if w.fs == nil {
		return
	}
	for _, dir := range w.wanted() {
		for dir != "/" && !isDir(dir) {
			dir = filepath.Dir(dir)
		}
		if w.dirs[dir] || dir == "/" {
			continue
		}
		if err := w.fs.Add(dir); err != nil {
			w.log.Debug().Err(err).Str("dir", dir).Msg("no notices of this directory, looking instead")
			continue
		}
		w.dirs[dir] = true
	}
}

func (w *watcher) wanted() []string {
	l := &loader{src: w.src}
	dirs := slices.Clone(w.src.Dirs)
	for _, f := range l.files() {
		dirs = append(dirs, filepath.Dir(f.path))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func (w *watcher) run(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error) {
	quiet := time.NewTimer(look)
	defer quiet.Stop()
	var since time.Time // of the first notice that is not yet acted on
	changed := func() {
		if since.IsZero() {
			since = time.Now()
		}
		quiet.Reset(max(0, min(settle, patience-time.Since(since))))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if w.dirs[e.Name] && e.Has(fsnotify.Remove|fsnotify.Rename) {
				delete(w.dirs, e.Name) // the notices went with the directory
			}
			if w.concerns(e.Name) {
				changed()
			}
		case err := <-errs: // for example an overflow: look at everything
			w.log.Debug().Err(err).Msg("notices of changed files")
			changed()
		case <-quiet.C:
			since = time.Time{}
			w.again()
			quiet.Reset(look)
		}
	}
}

// concerns tells whether path is a file that is read, in a directory of such, or a directory on the way to one. Others
// change all the time in a home directory.
func (w *watcher) concerns(path string) bool {
	if slices.Contains(w.src.Dirs, filepath.Dir(path)) {
		return true
	}
	for _, f := range (&loader{src: w.src}).files() {
		if f.path == path || strings.HasPrefix(f.path, path+"/") {
			return true
		}
	}
	return slices.ContainsFunc(w.src.Dirs, func(dir string) bool { return dir == path || strings.HasPrefix(dir, path+"/") })
}

// again loads anew when any file looks different.
func (w *watcher) again() {
	if w.stat() != w.state {
		w.load()
	}
	w.watch()
}

func (w *watcher) load() {
	w.state = w.stat() // before reading: a change in between is seen the next time
	r := Load(w.src)
	if now := r.fingerprint(); now != w.last {
		w.last = now
		w.take(r)
	}
}

// stat tells the files apart by name, inode, size and time.
func (w *watcher) stat() string {
	var b strings.Builder
	l := &loader{src: w.src}
	for _, f := range l.files() {
		info, err := os.Stat(f.path)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "%s\x00%d\x00%d\x00%d\x00", f.path, inode(info), info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}

// fingerprint is equal for results that mean the same. Places count too: they are shown.
func (r Result) fingerprint() string {
	var b strings.Builder
	b.WriteString("loaded\x00")
	for _, s := range r.Servers {
		fmt.Fprintf(&b, "%s\x00%s\x00%q\x00%q\x00%s\x00%s\x00%s\n", s.Hash, s.Source, s.Description, s.Off, s.StartTimeout, s.CallTimeout, s.Name)
	}
	for _, p := range r.Problems {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}
