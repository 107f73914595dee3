package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thawpool/thawpool/runtime"
)

// fakeHost makes a root with copies of this host's libc under other paths.
func fakeHost(t *testing.T, paths ...string) string {
	t.Helper()
	lib, err := newLibcFinder("/").find("libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(lib.path)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, name := range paths {
		writeFile(t, filepath.Join(root, name), data)
	}
	return root
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFindsLibraryInEachLayoutOfDistributions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"lib/x86_64-linux-gnu/libc.so.6", "usr/lib/aarch64-linux-gnu/libc.so.6", "lib64/libc.so.6", "usr/lib64/libc.so.6",
		"usr/lib/libc.so.6", "lib/libc.so.6",
	} {
		root := fakeHost(t, name)
		lib, err := newLibcFinder(root).find("libc.so.6")
		if err != nil || lib.path != filepath.Join(root, name) {
			t.Errorf("%s: found %q, %v", name, lib.path, err)
		}
	}
}

func TestFindsLibraryByTheLinkersCache(t *testing.T) {
	t.Parallel()
	root := fakeHost(t, "opt/odd/libc.so.6")
	writeFile(t, filepath.Join(root, "etc/ld.so.cache"), ldCache("libc.so.6", "/opt/odd/libc.so.6"))
	lib, err := newLibcFinder(root).find("libc.so.6")
	if err != nil || lib.path != filepath.Join(root, "opt/odd/libc.so.6") {
		t.Errorf("found %q, %v", lib.path, err)
	}
}

// ldCache writes the cache format of glibc with one entry.
func ldCache(name, path string) []byte {
	var out bytes.Buffer
	out.WriteString("ld.so-1.7.0\x00 an older table stands first")
	start := out.Len()
	out.Write(ldCacheMagic)
	for _, n := range []uint32{1, uint32(len(name) + len(path) + 2), 0, 0, 0, 0, 0} {
		_ = binary.Write(&out, binary.NativeEndian, n)
	}
	text := uint32(out.Len() - start + ldCacheEntry)
	for _, n := range []uint32{3, text, text + uint32(len(name)) + 1, 0, 0, 0} {
		_ = binary.Write(&out, binary.NativeEndian, n)
	}
	out.WriteString(name + "\x00" + path + "\x00")
	return out.Bytes()
}

func TestPassesOverLibrariesOfOtherMachines(t *testing.T) {
	t.Parallel()
	root := fakeHost(t, "lib64/libc.so.6", "usr/lib/libc.so.6")
	name := filepath.Join(root, "lib64/libc.so.6")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	binary.NativeEndian.PutUint16(data[18:], uint16(elf.EM_S390)) // e_machine
	writeFile(t, name, data)
	writeFile(t, filepath.Join(root, "lib/libc.so.6"), []byte("/* GNU ld script */"))
	lib, err := newLibcFinder(root).find("libc.so.6")
	if err != nil || lib.path != filepath.Join(root, "usr/lib/libc.so.6") {
		t.Errorf("found %q, %v", lib.path, err)
	}
}

func TestHostWithoutGlibcGetsAHint(t *testing.T) {
	t.Parallel()
	_, err := keyOf(newLibcFinder(t.TempDir()))
	var hint *runtime.HintError
	if !errors.Is(err, runtime.ErrImage) || !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &hint) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(hint.Hint, "--image") {
		t.Errorf("hint is %q", hint.Hint)
	}
}

func TestKeyChangesWithTheLibrary(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, name := range libcNames {
		paths = append(paths, "lib/"+name)
	}
	root := fakeHost(t, paths...)
	first, err := keyOf(newLibcFinder(root))
	if err != nil {
		t.Fatal(err)
	}
	again, err := keyOf(newLibcFinder(root))
	if err != nil || again != first {
		t.Errorf("second key is %s, %v; want %s", again, err, first)
	}
	name := filepath.Join(root, "lib/libm.so.6")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, name, append(data, 0))
	if changed, err := keyOf(newLibcFinder(root)); err != nil || changed == first {
		t.Errorf("key with another libm is %s, %v", changed, err)
	}
}

func FuzzLDCache(f *testing.F) {
	f.Add(ldCache("libc.so.6", "/lib/libc.so.6"))
	f.Add(ldCacheMagic)
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, paths := range parseLDCache(data) {
			if strings.Contains(name+strings.Join(paths, ""), "\x00") {
				t.Error("a string runs on")
			}
		}
	})
}
