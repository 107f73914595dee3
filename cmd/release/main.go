// Command release makes the tarball that people install: the programs that `make build` made, their documents, the licences
// of all that is in them, a bill of materials and checksums. Equal inputs give equal bytes. See `make release`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/thawpool/thawpool/runtime/host"
)

func main() {
	var r release
	var epoch int64
	flag.StringVar(&r.bin, "bin", "bin", "`directory` with the built programs")
	flag.StringVar(&r.version, "version", "", "the release's version")
	flag.Int64Var(&epoch, "epoch", 0, "the time of every file, in `seconds` since 1970: the commit's")
	flag.StringVar(&r.sbomTool, "sbom-tool", "", "Go `package@version` of cyclonedx-gomod")
	flag.StringVar(&r.goTool, "go", "go", "the go `command`")
	out := flag.String("out", "dist", "`directory` for the tarball")
	flag.Parse()
	r.time = time.Unix(epoch, 0).UTC()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	name, err := r.make(ctx, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, name)
}

// release is what goes into one tarball.
type release struct {
	bin, version     string
	sbomTool, goTool string
	time             time.Time
	files            map[string]file // by path below the tarball's one directory
}

// file is one file of the tarball: its text, or the path of what is copied.
type file struct {
	text []byte
	from string
	mode fs.FileMode
}

// programs are what must run on the installed machine; the other things in bin are for those who build.
func programs() []string { return append([]string{"thawpool"}, host.Binaries...) }

// make gathers everything, writes the tarball into out and gives its name.
func (r *release) make(ctx context.Context, out string) (string, error) {
	if r.version == "" || r.sbomTool == "" {
		return "", errors.New("-version and -sbom-tool are needed")
	}
	r.files = map[string]file{}
	for _, name := range programs() {
		r.files["bin/"+name] = file{from: filepath.Join(r.bin, name), mode: 0o755}
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		r.files[name] = file{from: name, mode: 0o644}
	}
	if err := r.addTree("docs", "docs"); err != nil {
		return "", err
	}
	if err := r.addLicences(ctx); err != nil {
		return "", fmt.Errorf("licences: %w", err)
	}
	if err := r.addSBOM(ctx); err != nil {
		return "", fmt.Errorf("bill of materials: %w", err)
	}
	if err := r.addSums(); err != nil {
		return "", fmt.Errorf("checksums: %w", err)
	}
	dir := fmt.Sprintf("thawpool-%s-%s-%s", r.version, goruntime.GOOS, goruntime.GOARCH)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	name := filepath.Join(out, dir+".tar.gz")
	return name, writeTarball(name, dir, r.files, r.time)
}

// addTree adds the files below the directory from.
func (r *release) addTree(from, to string) error {
	return fs.WalkDir(os.DirFS(from), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			r.files[path.Join(to, p)] = file{from: filepath.Join(from, p), mode: 0o644}
		}
		return err
	})
}
