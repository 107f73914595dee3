package ops

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Listen says where operators are served, and how that is protected.
type Listen struct {
	Address           string // host:port, or unix:PATH
	Token             string // wanted of whoever asks; "" asks for none
	CertFile, KeyFile string // serve TLS
	Insecure          bool   // serve another address than loopback without token or TLS
}

// Validate says what is wrong with l, and what to do.
func (l Listen) Validate() error {
	if path, ok := strings.CutPrefix(l.Address, "unix:"); ok {
		if path == "" {
			return errors.New("unix: needs the path of a socket")
		}
		return nil
	}
	host, port, err := net.SplitHostPort(l.Address)
	if err != nil || port == "" {
		return fmt.Errorf("must be host:port or unix:PATH and is %q", l.Address)
	}
	if (l.CertFile == "") != (l.KeyFile == "") {
		return errors.New("TLS needs both a certificate and its key")
	}
	if isLoopback(host) || l.Insecure {
		return nil
	}
	if l.Token == "" || l.CertFile == "" {
		return fmt.Errorf("%q can be reached from other machines: give --listen-token-file, --listen-cert and --listen-key, "+
			"or say --listen-insecure; or listen on 127.0.0.1 or a unix socket", l.Address)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ReadToken reads the token that a file holds: one line, at least 16 characters.
func ReadToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < 16 || strings.ContainsAny(token, " \r\n\t") {
		return "", fmt.Errorf("%s must hold one word of at least 16 characters", path)
	}
	return token, nil
}

// gate decides who is let in.
type gate struct {
	unix  bool
	host  string // as it was configured
	token [sha256.Size]byte
	asks  bool // for the token
	cert  *x509.Certificate
}

// open makes the listener.
func (l Listen) open() (net.Listener, *gate, error) {
	if path, ok := strings.CutPrefix(l.Address, "unix:"); ok {
		ln, err := listenUnix(path)
		return ln, l.gate(true, "", nil), err
	}
	ln, err := net.Listen("tcp", l.Address)
	if err != nil {
		return nil, nil, err
	}
	host, _, _ := net.SplitHostPort(l.Address) // Validate has done so
	if l.CertFile == "" {
		return ln, l.gate(false, host, nil), nil
	}
	pair, err := tls.LoadX509KeyPair(l.CertFile, l.KeyFile)
	if err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	return tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}}), l.gate(false, host, pair.Leaf), nil
}

func (l Listen) gate(unix bool, host string, cert *x509.Certificate) *gate {
	return &gate{unix: unix, host: host, token: sha256.Sum256([]byte(l.Token)), asks: l.Token != "", cert: cert}
}

// listenUnix makes a socket that only this user can use. It replaces one that nobody listens on any more.
func listenUnix(path string) (net.Listener, error) {
	if c, err := dialUnix(path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("%s: another process listens there", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	// The mode must hold from the first moment, but a umask is the whole process's: so the socket gets its name once it is
	// closed to others.
	temp := fmt.Sprintf("%s.%d", short, os.Getpid())
	ln, err := net.Listen("unix", temp)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(temp, 0o600), os.Rename(temp, short)); err != nil {
		return nil, errors.Join(err, ln.Close(), os.Remove(temp))
	}
	return &unixListener{Listener: ln, path: path}, nil
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	net.Listener
	path string
}

func (l *unixListener) Close() error {
	return errors.Join(l.Listener.Close(), removeIfThere(l.path))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func dialUnix(path string) (net.Conn, error) {
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.Dial("unix", short)
}

// shortPath is path through a descriptor of its directory: sockets' paths have at most 107 bytes.
func shortPath(path string) (short string, done func(), err error) {
	dir, err := os.OpenFile(filepath.Dir(path), syscall.O_DIRECTORY|os.O_RDONLY, 0)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)), func() { _ = dir.Close() }, nil
}

// knows tells whether token is the one that is asked for.
func (g *gate) knows(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return g.asks && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

// meant tells whether a Host header can be a person's or a scraper's. A page that had its own name's address changed to
// ours (DNS rebinding) always comes with a name that is not ours.
func (g *gate) meant(hostport string) bool {
	if g.unix {
		return true
	}
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	switch {
	case host == "localhost", net.ParseIP(host) != nil, g.host != "" && strings.EqualFold(host, g.host):
		return true
	}
	return g.cert != nil && g.cert.VerifyHostname(host) == nil
}
