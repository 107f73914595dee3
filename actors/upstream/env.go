package upstream

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/thawpool/thawpool/actors/catalog/config"
)

// safeEnv are the variables of the host that a child may see: what programs need to find their files and to speak the
// user's language. Everything else, proxies included (their addresses often carry a password), must stand in the
// entry's own env, where ${NAME} takes it from the host.
var safeEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}

// defaultPath is used where thawpool itself was started without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// childEnv is the safe base, the entry's own variables and the marks, sorted by name.
func childEnv(host []string, own map[string]string, mark string) []string {
	env := map[string]string{"PATH": defaultPath}
	for _, kv := range host {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		if strings.HasPrefix(name, "LC_") {
			env[name] = value
		}
		for _, safe := range safeEnv {
			if name == safe {
				env[name] = value
			}
		}
	}
	for name, value := range own {
		env[name] = value
	}
	depth, _ := strconv.Atoi(os.Getenv(config.EnvDepth)) // what is no number was not set by thawpool
	env[MarkVariable] = mark
	name, value, _ := strings.Cut(config.DepthMark(depth), "=")
	env[name] = value
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}

// lookPath finds command on the PATH that the child will have, which an entry's own env may set.
func lookPath(command, dir string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		path := command
		if dir != "" && !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, checkProgram(path)
	}
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue // a relative entry would depend on where thawpool was started
		}
		if full := filepath.Join(d, command); checkProgram(full) == nil {
			return full, nil
		}
	}
	return "", fmt.Errorf("command %q is not on PATH (%s); install it, or give its full path in the server's definition", command, path)
}

func checkProgram(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("command %q does not exist; install it, or correct the server's definition", path)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("command %q is a directory", path)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("command %q is not executable; chmod +x it", path)
	}
	return nil
}

// checkDir is there because the error of a start names only the program.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("its working directory %q does not exist; create it, or correct the server's definition", dir)
	}
	return nil
}

// startError says why a program that exists could not be started.
func startError(path string, err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	return fmt.Errorf("%s could not be started: %w", path, err)
}
