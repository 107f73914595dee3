//go:build integration

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/typeurl/v2"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
	"github.com/thawpool/thawpool/runtime/daemon"
)

// settings are the daemon's configuration, and the same with one thing as containerd has it by itself.
var settings = []struct {
	name  string
	undo  *regexp.Regexp
	plain string
}{
	{"as-it-is", regexp.MustCompile(`^$`), ""},
	{"synced-metadata", regexp.MustCompile(`no_sync = true`), "no_sync = false"},
	{"with-CRI", regexp.MustCompile(`.*"io\.containerd\.(cri|grpc\.v1\.cri|podsandbox)[^"]*",\n?`), ""},
	{"all-plugins", regexp.MustCompile(`(?s)disabled_plugins = \[.*?\]`), ""},
	{"info-log", regexp.MustCompile(`level = "warn"`), `level = "info"`},
}

// BenchmarkSettings starts a containerd with each of the settings, in turns, and reports medians: the time until it
// serves, its memory when it does (PSS), and the time to make and remove a container's record and snapshot.
func BenchmarkSettings(b *testing.B) {
	e := ctrdtest.NewEnv(b)
	e.Ensure(b).Close()
	config, err := os.ReadFile(filepath.Join(e.StateDir, "containerd.toml"))
	if err != nil {
		b.Fatal(err)
	}
	figures := map[string][]float64{}
	for b.Loop() {
		for _, s := range settings {
			if s.name != "as-it-is" && !s.undo.Match(config) {
				b.Fatalf("the configuration has nothing of %s", s.name)
			}
			for unit, n := range measure(b, s.undo.ReplaceAll(config, []byte(s.plain))) {
				figures[unit+"/"+s.name] = append(figures[unit+"/"+s.name], n)
			}
		}
	}
	b.ReportMetric(0, "ns/op") // the parts tell
	for unit, all := range figures {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], unit)
	}
}

// records is how many containers and snapshots are made and removed for one figure.
const records = 50

// measure is one life of a daemon with this configuration.
func measure(b *testing.B, config []byte) map[string]float64 {
	b.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "tp-") //nolint:usetesting // short enough for sockets
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "containerd.toml"), config, 0o600),
		os.Mkdir(filepath.Join(dir, "run"), 0o700)); err != nil {
		b.Fatal(err)
	}
	const enter = `mkdir -p "$1" && mount --bind "$2" "$1" && rm -f /run/containerd && exec "$3" --config "$1/containerd.toml"`
	cmd := exec.Command(filepath.Join(ctrdtest.BinDir(), "rootlesskit"), "--state-dir="+filepath.Join(dir, "rk"),
		"--net=none", "--pidns", "--copy-up=/etc", "--copy-up=/run",
		"sh", "-c", enter, "sh", daemon.Inside, dir, filepath.Join(ctrdtest.BinDir(), "containerd"))
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = said.Close() }()
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	socket := filepath.Join(dir, "run", "containerd.sock")
	ctrdtest.Await(b, "containerd listens", func() error {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			words, _ := os.ReadFile(said.Name())
			return fmt.Errorf("%w: %s", err, words)
		}
		return conn.Close()
	})
	client, err := containerd.New(socket, containerd.WithDefaultNamespace("bench"))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := client.IsServing(b.Context()); err != nil {
		b.Fatal(err)
	}
	started := time.Since(began)
	defer func() { _ = client.Close() }()
	return map[string]float64{
		"start-ms": ms(started), "MiB": pss(b, cmd.Process.Pid),
		"record-ms": each(b, func(ctx context.Context, id string) error {
			spec, err := typeurl.MarshalAny(&specs.Spec{Version: specs.Version})
			if err != nil {
				return err
			}
			c := containers.Container{ID: id, Spec: spec, Runtime: containers.RuntimeInfo{Name: "io.containerd.runc.v2"}}
			_, err = client.ContainerService().Create(ctx, c)
			return errors.Join(err, client.ContainerService().Delete(ctx, id))
		}),
		"snapshot-ms": each(b, func(ctx context.Context, id string) error {
			s := client.SnapshotService("overlayfs")
			_, err := s.Prepare(ctx, id, "", snapshots.WithLabels(map[string]string{"containerd.io/gc.root": "bench"}))
			return errors.Join(err, s.Remove(ctx, id))
		}),
	}
}

// each is the median time that a thing takes.
func each(b *testing.B, do func(ctx context.Context, id string) error) float64 {
	b.Helper()
	var all []float64
	for i := range records {
		began := time.Now()
		if err := do(b.Context(), fmt.Sprintf("r-%d", i)); err != nil {
			b.Fatal(err)
		}
		all = append(all, ms(time.Since(began)))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// pss is the memory of the containerd below a process, in MiB, with its share of what others use too.
func pss(b *testing.B, above int) float64 {
	b.Helper()
	all, err := ctrdtest.Table()
	if err != nil {
		b.Fatal(err)
	}
	below := map[int]bool{above: true}
	for range all { // often enough for the deepest
		for _, p := range all {
			below[p.PID] = below[p.PID] || below[p.Parent]
		}
	}
	i := slices.IndexFunc(all, func(p ctrdtest.Process) bool { return below[p.PID] && p.Is("containerd") })
	if i < 0 {
		b.Fatal("no containerd")
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", all[i].PID))
	if err != nil {
		b.Fatal(err)
	}
	var kib float64
	_, after, _ := strings.Cut(string(data), "\nPss:")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
