package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"
)

// layerTime is the modification time of everything in our layers, so that equal content gives an equal digest. It lies
// after 1980 because Python's zipfile refuses what is older.
var layerTime = time.Unix(946684800, 0).UTC() // 2000-01-01

// An entry is one file, directory or symlink of a layer. Everything belongs to root.
type entry struct {
	path string      // below the root, with slashes, no leading one
	mode fs.FileMode // type and permission bits
	link string      // target, of a symlink
	data []byte      // content of a regular file, unless source is set
	from string      // the host's file with the content
}

func dirEntry(name string, perm fs.FileMode) entry {
	return entry{path: name, mode: fs.ModeDir | perm}
}

func dataEntry(name string, data []byte) entry {
	return entry{path: name, mode: 0o644, data: data}
}

func linkEntry(name, target string) entry {
	return entry{path: name, mode: fs.ModeSymlink | 0o777, link: target}
}

// writeLayer writes entries as an uncompressed layer: sorted by path, parents before children, and nothing in it that
// depends on when or where it was written. Missing parent directories are added. A path given twice is an error.
func writeLayer(w io.Writer, entries []entry) error {
	entries = withParents(entries)
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	tw := tar.NewWriter(w)
	last := ""
	for _, e := range entries {
		if e.path == last {
			return fmt.Errorf("layer has %s twice", e.path)
		}
		last = e.path
		if err := e.write(tw); err != nil {
			return fmt.Errorf("write %s into the layer: %w", e.path, err)
		}
	}
	return tw.Close()
}

// withParents adds the directories that entries lie in, where no entry names them.
func withParents(entries []entry) []entry {
	have := make(map[string]bool, len(entries))
	for _, e := range entries {
		have[e.path] = true
	}
	all := slices.Clone(entries)
	for _, e := range entries {
		for dir := path.Dir(e.path); dir != "." && !have[dir]; dir = path.Dir(dir) {
			have[dir] = true
			all = append(all, dirEntry(dir, 0o755))
		}
	}
	return all
}

// write puts one entry into the archive.
func (e entry) write(tw *tar.Writer) error {
	hdr := &tar.Header{Name: e.path, Mode: int64(e.mode.Perm()), ModTime: layerTime, Format: tar.FormatPAX}
	if e.mode&fs.ModeSticky != 0 {
		hdr.Mode |= 0o1000
	}
	switch e.mode.Type() {
	case fs.ModeDir:
		hdr.Typeflag, hdr.Name = tar.TypeDir, e.path+"/"
		return tw.WriteHeader(hdr)
	case fs.ModeSymlink:
		hdr.Typeflag, hdr.Linkname = tar.TypeSymlink, e.link
		return tw.WriteHeader(hdr)
	case 0:
		hdr.Typeflag = tar.TypeReg
	default:
		return errors.New("only files, directories and symlinks go into a layer")
	}
	content, size, err := e.open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	hdr.Size = size
	if err := tw.WriteHeader(hdr); err != nil {
		return err
	}
	_, err = io.Copy(tw, content)
	return err
}

// open gives the content of a regular file and its size in bytes.
func (e entry) open() (io.ReadCloser, int64, error) {
	if e.from == "" {
		return io.NopCloser(bytes.NewReader(e.data)), int64(len(e.data)), nil
	}
	f, err := os.Open(e.from)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}
