package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The same files give the same bytes, whoever has them where with what times, and nothing of that is in the tarball.
func TestTarballIsReproducible(t *testing.T) {
	when := time.Unix(1_700_000_000, 0).UTC()
	var made [][]byte
	for i, umask := range []os.FileMode{0o755, 0o700} {
		dir := t.TempDir()
		program := filepath.Join(dir, "p")
		if err := os.WriteFile(program, []byte("program"), umask); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(program, time.Time{}, when.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		r := release{files: map[string]file{
			"bin/p":    {from: program, mode: 0o755},
			"a/b/text": {text: []byte("text"), mode: 0o644},
			"LICENSE":  {text: []byte("licence"), mode: 0o644},
		}}
		if err := r.addSums(); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "x.tar.gz")
		if err := writeTarball(name, "x", r.files, when); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := os.ReadFile(name + ".sha256")
		if want := fmt.Sprintf("%x  x.tar.gz\n", sha256.Sum256(data)); err != nil || string(sum) != want {
			t.Errorf("checksum %q, %v, want %q", sum, err, want)
		}
		made = append(made, data)
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("two tarballs of the same files differ")
	}
	var names []string
	unpacked, err := gzip.NewReader(bytes.NewReader(made[0]))
	if err != nil {
		t.Fatal(err)
	}
	in := tar.NewReader(unpacked)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if !h.ModTime.Equal(when) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s tells of its maker: %+v", h.Name, h)
		}
		if want := h.Name == "x/bin/p" || h.Typeflag == tar.TypeDir; (h.Mode&0o111 != 0) != want {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
	}
	if want := "x/ x/LICENSE x/SHA256SUMS x/a/ x/a/b/ x/a/b/text x/bin/ x/bin/p"; strings.Join(names, " ") != want {
		t.Errorf("names %q, want %q", names, want)
	}
}

// Licences are known by the names that projects give them, and code is not one.
func TestLicenceNames(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "license.txt": true, "LICENCE": true, "COPYING.LESSER": true, "NOTICE": true, "UNLICENSE": true,
		"LICENSE-APACHE": true, "PATENTS": true, "licenses.go.in": false, "README.md": false, "copy.go": false,
	} {
		if got := licenceName.MatchString(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A release has every program that doctor asks for, and no tool of those who build.
func TestPrograms(t *testing.T) {
	got := programs()
	for _, name := range []string{"thawpool", "containerd", "rootlesskit", "runc", "containerd-shim-thawpool-v1", "thawpool-init"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is missing from %q", name, got)
		}
	}
	if slices.Contains(got, "ctr") {
		t.Error("ctr is not needed to run")
	}
}
