package ctrd

import (
	"slices"
	"strings"

	"github.com/thawpool/thawpool/runtime/guest"
)

// environment is the image's environment with the guest's over it. Nothing of the host's is in it.
func environment(image, preload []string) []string {
	over := guest.Env()
	if len(preload) > 0 {
		over = append(over, guest.PreloadEnv+"="+strings.Join(preload, ","))
	}
	env := slices.Clone(image)
	for _, kv := range over {
		name, _, _ := strings.Cut(kv, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, kv)
	}
	return env
}
