package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// namesIn lists an archive's entries in order.
func namesIn(t *testing.T, archive []byte) []string {
	t.Helper()
	var names []string
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		hdr, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, hdr.Name)
	}
}

func TestLayerDoesNotDependOnOrderTimeOrPlace(t *testing.T) {
	t.Parallel()
	write := func(reverse bool) []byte {
		file := filepath.Join(t.TempDir(), "somewhere")
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
		entries := []entry{
			dataEntry("a/b/c.txt", []byte("c")), {path: "a/run", mode: 0o755, from: file}, linkEntry("a-link", "a/b"),
			dirEntry("tmp", 0o755),
		}
		if reverse {
			slices.Reverse(entries)
		}
		var out bytes.Buffer
		if err := writeLayer(&out, entries); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	first, second := write(false), write(true)
	if !bytes.Equal(first, second) {
		t.Error("two archives of the same entries differ")
	}
	want := []string{"a/", "a-link", "a/b/", "a/b/c.txt", "a/run", "tmp/"}
	if got := namesIn(t, first); !slices.Equal(got, want) {
		t.Errorf("names are %q, want %q", got, want)
	}
}

func TestLayerRefusesWhatIsTwiceOrNoFile(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]entry{
		"twice":  {dataEntry("x", nil), dirEntry("x", 0o755)},
		"device": {{path: "dev/null", mode: os.ModeDevice}},
		"gone":   {{path: "x", mode: 0o644, from: "/does/not/exist"}},
	} {
		if err := writeLayer(io.Discard, entries); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCompressedLayerIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("thawpool "), 1<<20)
	write := func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
	var out bytes.Buffer
	first, err := compressInto(&out, write)
	if err != nil {
		t.Fatal(err)
	}
	second, err := compressInto(io.Discard, write)
	if err != nil {
		t.Fatal(err)
	}
	if first.blob.Digest != second.blob.Digest || first.diff != second.diff {
		t.Errorf("digests differ: %v and %v", first, second)
	}
	if first.blob.Size != int64(out.Len()) {
		t.Errorf("size is %d, want %d", first.blob.Size, out.Len())
	}
}
