//go:build integration

package conformance

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// registryHost is where the suite's images are, written into its code.
const registryHost = "ghcr.io"

// serveImages is registryHost for this namespace: it has what the suite's tests of containers pull, busybox and an image
// of several layers. It ends with this process. ca is the file with the certificate to trust.
func serveImages(ca string) error {
	cert, err := certificate(registryHost)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		return err
	}
	server := httptest.NewUnstartedServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	_ = server.Listener.Close()
	if server.Listener, err = net.Listen("tcp", "127.0.0.1:443"); err != nil {
		return err
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	busybox, err := busyboxImage()
	if err != nil {
		return err
	}
	layered := busybox
	for _, file := range []string{"one", "two", "three"} {
		if layered, err = appendLayer(layered, []entry{{name: file, data: []byte(file)}}); err != nil {
			return err
		}
	}
	for path, img := range map[string]v1.Image{
		"busybox:1.36": busybox, "volume-copy-up:2.2": layered, "volume-ownership:2.1": layered,
	} {
		tag, err := name.ParseReference(registryHost + "/containerd/" + path)
		if err != nil {
			return err
		}
		if err := remote.Write(tag, img, remote.WithTransport(server.Client().Transport)); err != nil {
			return err
		}
	}
	return nil
}

// certificate makes a self-signed one for host.
func certificate(host string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{host}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// entry is a file, a link, or with neither data nor link a directory of a layer.
type entry struct {
	name, link string
	data       []byte
}

// busyboxImage is Debian's static busybox under the name of each of its programs, with the users that the suite expects.
func busyboxImage() (v1.Image, error) {
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		return nil, err
	}
	entries := []entry{{name: "bin"}, {name: "etc"}, {name: "proc"}, {name: "sys"}, {name: "dev"}, {name: "tmp"},
		{name: "etc/passwd", data: []byte("root:x:0:0::/:/bin/sh\nsys:x:3:3::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n")},
		{name: "etc/group", data: []byte("root:x:0:\nsys:x:3:\nwww-data:x:33:\n")},
		{name: "bin/busybox", data: program},
	}
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			entries = append(entries, entry{name: "bin/" + applet, link: "busybox"})
		}
	}
	img, err := appendLayer(empty.Image, entries)
	if err != nil {
		return nil, err
	}
	return mutate.Config(img, v1.Config{Cmd: []string{"sh"}, Env: []string{"PATH=/bin"}})
}

func appendLayer(to v1.Image, entries []entry) (v1.Image, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Mode: 0o755, Size: int64(len(e.data)), Typeflag: tar.TypeReg}
		switch {
		case e.link != "":
			h.Typeflag = tar.TypeSymlink
		case e.data == nil:
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(to, layer)
}
