// Command failshim is the project's shim with points at which it can be told to fail. It is only for tests.
package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/pkg/shim"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"github.com/containerd/ttrpc"

	thawshim "github.com/thawpool/thawpool/runtime/shim"
)

func main() {
	registry.Register(&plugin.Registration{
		Type: plugins.TTRPCPlugin,
		ID:   "failpoints",
		InitFn: func(*plugin.InitContext) (any, error) {
			self, err := os.Executable()
			return failpoints{tell: filepath.Join(filepath.Dir(filepath.Dir(self)), "tell")}, err
		},
	})
	thawshim.Run()
}

// failpoints stand before every operation of the shim. The file tell, beside the program's directory, has a line for each
// that is to go wrong: the operation's name, and fails, hangs, or is mute: it is done, and no answer comes.
type failpoints struct{ tell string }

var (
	_ shim.TTRPCService             = failpoints{}
	_ shim.TTRPCServerUnaryOptioner = failpoints{}
)

// RegisterTTRPC implements shim.TTRPCService: there is no operation more.
func (failpoints) RegisterTTRPC(*ttrpc.Server) error { return nil }

// UnaryServerInterceptor implements shim.TTRPCServerUnaryOptioner.
func (f failpoints) UnaryServerInterceptor() ttrpc.UnaryServerInterceptor {
	return func(ctx context.Context, read ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, do ttrpc.Method) (any, error) {
		switch how := f.told(path.Base(info.FullMethod)); how {
		case "fails":
			return nil, fmt.Errorf("told to fail")
		case "hangs":
			select {}
		case "mute":
			_, _ = do(ctx, read)
			select {}
		}
		return do(ctx, read)
	}
}

// told tells what is to go wrong with an operation, and notes that it was met.
func (f failpoints) told(operation string) (how string) {
	lines, err := os.ReadFile(f.tell)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(lines)) {
		if name, how, _ := strings.Cut(strings.TrimSpace(line), " "); name == operation {
			_ = os.WriteFile(f.tell+".met", []byte(line), 0o600)
			return how
		}
	}
	return ""
}
