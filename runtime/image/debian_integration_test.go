//go:build integration

package image_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gofrs/flock"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/guest"
	"github.com/thawpool/thawpool/runtime/image"
	"github.com/thawpool/thawpool/runtime/local"
)

// installMmdebstrap gets the program that makes the Debian image, when the tests were started as root.
func installMmdebstrap() error {
	if _, err := exec.LookPath("mmdebstrap"); err == nil || os.Geteuid() != 0 {
		return nil
	}
	cmd := exec.Command("apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "-q", "--no-install-recommends", "mmdebstrap")
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
	}
	return nil
}

// debianTar is a root filesystem of this machine's own distribution release with python3 and python3-numpy. It is made
// once and kept in the user's cache.
func debianTar(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "thawpool-test")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	codename := codename(t)
	path := filepath.Join(cache, codename+"-numpy.tar")
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	part, err := os.Create(path + ".part")
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	var words strings.Builder
	cmd := exec.CommandContext(t.Context(), "mmdebstrap", "--mode=unshare", "--variant=essential", "--format=tar",
		"--include=python3,python3-numpy", codename, "-")
	cmd.Stdout, cmd.Stderr = part, &words
	cmd.Env = append(os.Environ(), "TMPDIR=/var/tmp", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.Dir = "/"
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v (as root once: apt-get install mmdebstrap): %v: %s", cmd.Args, err, words.String())
	}
	if err := os.Rename(part.Name(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// codename is the release of this machine, for example "bookworm".
func codename(t *testing.T) string {
	t.Helper()
	f, err := os.Open("/etc/os-release")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`)
		}
	}
	t.Fatal("/etc/os-release names no release")
	return ""
}

// Debian's own Python with a compiled extension works as the image of a real, frozen and thawed sandbox.
func TestDebianImageRunsNumpy(t *testing.T) {
	file := debianTar(t)
	c, _ := connect(t)
	env := ctrdtest.OpenEnv(t, shared.dir)
	ctx := inNamespace(t, ctrd.Namespace)
	const ref = "docker.io/library/debian-numpy:test"
	if refs, err := image.Import(ctx, c, file, ref, env.Log); err != nil || len(refs) != 1 || refs[0] != ref {
		t.Fatalf("got %q, %v", refs, err)
	}
	t.Cleanup(func() {
		if err := image.Remove(inNamespace(t, ctrd.Namespace), c, ref, env.Log); err != nil {
			t.Error(err)
		}
	})
	rt := env.Runtime(t, func(conf *ctrd.Config) {
		conf.Connect = local.Connect(local.Config{Daemon: env.Config, Image: ref, Log: env.Log})
	})
	sb := ctrdtest.Boot(t, rt, "numpy")
	if got := sb.Boot().Python; !strings.HasPrefix(got, "3.") {
		t.Errorf("Python is %q", got)
	}
	if err := sb.Thaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	code := "import numpy\nprint(numpy.arange(10).sum(), numpy.linalg.det(numpy.eye(3)))\n"
	if err := guest.NewWriter(sb.Stream()).Run(guest.Run{ID: "r", Code: code, ValueMax: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	out := ""
	for frames := guest.NewReader(sb.Stream()); ; {
		f, err := frames.Next()
		if err != nil {
			t.Fatalf("%v after %q", err, out)
		}
		if f.Kind == guest.KindOut {
			out += string(f.Data)
		}
		if f.Kind == guest.KindExit {
			break
		}
	}
	if want := "45 1.0\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}
