package daemon

import (
	"bytes"
	"text/template"
)

// unneeded are plugins that a daemon for sandboxes has no use for. Each that loads costs time at start and some probe
// the machine; "restart" would start containers by itself.
var unneeded = []string{
	"io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri",
	"io.containerd.podsandbox.controller.v1.podsandbox",
	"io.containerd.monitor.container.v1.restart", "io.containerd.monitor.task.v1.cgroups",
	"io.containerd.nri.v1.nri", "io.containerd.image-verifier.v1.bindir", "io.containerd.internal.v1.opt",
	"io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
	"io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.btrfs",
	"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.zfs",
	"io.containerd.differ.v1.erofs", "io.containerd.mount-handler.v1.erofs",
	"io.containerd.metrics.v1.grpc-prometheus", "io.containerd.metrics.v1.grpc-otel",
	"io.containerd.server.v1.metrics", "io.containerd.server.v1.debug", "io.containerd.server.v1.grpc-tcp",
	"io.containerd.http.v1.pprof",
}

// containerdTemplate is the daemon's configuration (version 4 of its format). The metadata store is not synced to disk:
// all in it can be made again, and a keeper whose containerd does not start clears it.
var containerdTemplate = template.Must(template.New("").Parse(`# Written by thawpool at every start.
version = 4
root = "{{.Inside}}/root"
state = "{{.Inside}}/state"
temp = "{{.Temp}}"
disabled_plugins = [{{range .Unneeded}}
  "{{.}}",{{end}}
]

[debug]
  level = "warn"

# A busy machine is slow: what is given up here stays behind.
[timeouts]
  "io.containerd.timeout.shim.cleanup" = "60s"
  "io.containerd.timeout.shim.load" = "60s"
  "io.containerd.timeout.shim.shutdown" = "60s"

[plugins."io.containerd.server.v1.grpc"]
  address = "{{.Inside}}/run/containerd.sock"

[plugins."io.containerd.server.v1.ttrpc"]
  address = "{{.Inside}}/run/containerd.sock.ttrpc"

[plugins."io.containerd.metadata.v1.bolt"]
  no_sync = true

[plugins."io.containerd.shim.v1.manager"]
  socket_dir = "{{.Inside}}/run/s"
`))

func containerdConfig() ([]byte, error) {
	var b bytes.Buffer
	err := containerdTemplate.Execute(&b, struct {
		Inside, Temp string
		Unneeded     []string
	}{Inside, Temp, unneeded})
	return b.Bytes(), err
}
