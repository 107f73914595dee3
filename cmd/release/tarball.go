package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"time"
)

// open gives the file's bytes and their number.
func (f file) open() (io.ReadCloser, int64, error) {
	if f.from == "" {
		return io.NopCloser(bytes.NewReader(f.text)), int64(len(f.text)), nil
	}
	in, err := os.Open(f.from)
	if err != nil {
		return nil, 0, err
	}
	info, err := in.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, in.Close())
	}
	return in, info.Size(), nil
}

// addSums adds the checksum of everything so far, as sha256sum --check reads them.
func (r *release) addSums() error {
	var sums bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		sum := sha256.New()
		in, _, err := r.files[name].open()
		if err == nil {
			_, err = io.Copy(sum, in)
			err = errors.Join(err, in.Close())
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), name)
	}
	r.files["SHA256SUMS"] = file{text: sums.Bytes(), mode: 0o644}
	return nil
}

// writeTarball writes the files below dir in the order of their names, all of one time and of root. The tarball and its
// own checksum beside it appear whole.
func writeTarball(name, dir string, files map[string]file, when time.Time) error {
	out, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // gone already after the rename
	sum := sha256.New()
	packed, err := gzip.NewWriterLevel(io.MultiWriter(out, sum), gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(packed)
	made := map[string]bool{}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if err := addDirs(w, path.Join(dir, path.Dir(p)), made, when); err != nil {
			return err
		}
		if err := addFile(w, path.Join(dir, p), files[p], when); err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
	}
	if err := errors.Join(w.Close(), packed.Close(), out.Close()); err != nil {
		return err
	}
	line := fmt.Appendf(nil, "%x  %s\n", sum.Sum(nil), path.Base(name))
	return errors.Join(os.Rename(out.Name(), name), os.WriteFile(name+".sha256", line, 0o644))
}

// addDirs adds a directory and those above it, once each.
func addDirs(w *tar.Writer, dir string, made map[string]bool, when time.Time) error {
	if dir == "." || made[dir] {
		return nil
	}
	made[dir] = true
	if err := addDirs(w, path.Dir(dir), made, when); err != nil {
		return err
	}
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: when, Format: tar.FormatPAX})
}

func addFile(w *tar.Writer, name string, f file, when time.Time) error {
	in, size, err := f.open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	err = w.WriteHeader(&tar.Header{Name: name, Size: size, Mode: int64(f.mode), ModTime: when, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}
