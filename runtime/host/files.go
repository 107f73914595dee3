package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// v1Unlimited is where v1 starts to mean "no limit": its own mark is the largest page-aligned int64, which differs with
// the page size (9223372036854771712 for 4 KiB).
const v1Unlimited = int64(1) << 62

// writeFile writes one control file. It neither creates nor truncates: kernel files want exactly one write.
func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// readInt reads a control file that holds one whole number.
func readInt(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// readLimit reads a limit file: "max" and v1's huge numbers are Unlimited.
func readLimit(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(data))
	if text == "max" {
		return Unlimited, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if n >= v1Unlimited {
		return Unlimited, nil
	}
	return n, nil
}

// readKeyed reads one number out of a file of "key number" lines. A key that is absent counts as zero.
func readKeyed(path, key string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return keyed(data, path, key)
}

func keyed(data []byte, path, key string) (int64, error) {
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == key {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %s: %w", path, key, err)
			}
			return n, nil
		}
	}
	return 0, nil
}

// keyedAt is readKeyed on an open file, from its beginning.
func keyedAt(f *os.File, key string) (int64, error) {
	data := make([]byte, 4096) // far more than any such file holds
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	return keyed(data[:n], f.Name(), key)
}
