//go:build integration

package realup

import (
	"os"
	"testing"
)

func TestServersAreInstalledOnce(t *testing.T) {
	for _, set := range []map[string]string{npm, pypi} {
		for tool := range set {
			path := Command(t, tool)
			if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
