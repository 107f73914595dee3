package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/thawpool/thawpool/runtime/guest"
)

// podmanImage is the name under which podman gets the default image.
const podmanImage = "localhost/thawpool-bench"

// podmanBare is `podman run` of the same image, a container a call. Everything of podman's is kept below dir.
func (b *benchRun) podmanBare(f *bare, dir, root string, inside []string) error {
	podman, err := exec.LookPath("podman")
	if err != nil {
		return errors.New("podman is not installed")
	}
	own := filepath.Join(dir, "podman")
	if err := b.podmanHome(own, f.cred); err != nil {
		return err
	}
	global := append([]string{podman}, podmanGlobal(own)...)
	if err := f.podmanImport(global, root); err != nil {
		return fmt.Errorf("podman import: %w", err)
	}
	l := b.app.cfg.Limits
	run := []string{"run", "--rm", "-i", "--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges",
		"--tmpfs=" + guest.Workspace, "--workdir=" + guest.Workspace}
	limits := []string{"--pids-limit=" + strconv.FormatInt(l.PIDs, 10), "--memory=" + strconv.FormatInt(l.Memory, 10)}
	last := append([]string{podmanImage}, inside...)
	f.argv = slices.Concat(global, run, limits, last)
	first := b.tryBare(f)
	if first == nil {
		return nil
	}
	// crun refuses machines that have both versions of control groups, and rootless podman sets no limits on v1.
	ours := []string{"--runtime=" + filepath.Join(b.app.cfg.BinDir, "runc"), "--cgroup-manager=cgroupfs"}
	f.argv = slices.Concat(global, ours, run, last)
	if err := b.tryBare(f); err != nil {
		return errors.Join(first, err)
	}
	b.note("podman runs with our runc and without limits: as it comes it does not run on this machine")
	return nil
}

// podmanImport gives podman the unpacked image.
func (f *bare) podmanImport(global []string, root string) error {
	cmd := exec.Command(global[0], append(slices.Clone(global[1:]), "import", "-", podmanImage)...)
	cmd.Env = f.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: f.cred, Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w := tar.NewWriter(in)
	err = errors.Join(w.AddFS(os.DirFS(root)), w.Close(), in.Close())
	if ended := cmd.Wait(); ended != nil {
		return fmt.Errorf("%w: %.300s", ended, strings.TrimSpace(said.String()))
	}
	return err
}

// podmanHome is where podman keeps everything, so that nothing of it stays.
func (b *benchRun) podmanHome(own string, cred *syscall.Credential) error {
	if err := os.Mkdir(own, 0o755); err != nil || cred == nil {
		return err
	}
	return os.Chown(own, int(cred.Uid), int(cred.Gid))
}

// endPodman takes away what podman made, files of its subordinate ids too, and ends the process that holds its namespaces
// open. Without podman in dir there is nothing to do.
func endPodman(dir string) error {
	own := filepath.Join(dir, "podman")
	data, err := os.ReadFile(filepath.Join(own, "tmp", "pause.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	pid, perr := strconv.Atoi(strings.TrimSpace(string(data)))
	if err = errors.Join(err, perr); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		cmd := exec.Command("podman", append(podmanGlobal(own), "unshare", "sh", "-c", `umount -l "$1/root/overlay"; rm -rf "$1/root" "$1/run"`, "sh", own)...)
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("remove podman's files in %s: %w: %.300s", own, err, said)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// podmanGlobal makes podman keep everything below own.
func podmanGlobal(own string) []string {
	return []string{"--log-level=error", "--storage-driver=overlay", "--root=" + own + "/root", "--runroot=" + own + "/run", "--tmpdir=" + own + "/tmp"}
}
