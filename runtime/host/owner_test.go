package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestOwnerOfThisProcessIsAlive(t *testing.T) {
	o, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if !o.Alive() || o.PID != os.Getpid() || o.BootID == "" || o.Start == 0 {
		t.Errorf("%+v", o)
	}
	back, err := ParseOwner(o.String())
	if err != nil || back != o {
		t.Errorf("%v came back as %v, %v", o, back, err)
	}
}

func TestOwnerIsDeadAfterRebootOrReuseOfItsPID(t *testing.T) {
	o, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	reused, rebooted := o, o
	reused.Start++
	rebooted.BootID = "00000000-0000-0000-0000-000000000000"
	if reused.Alive() || rebooted.Alive() || (Owner{}).Alive() {
		t.Error("a dead owner is taken for alive")
	}
}

func TestOwnerThatExitedIsDeadBeforeItIsReaped(t *testing.T) {
	cmd := exec.Command("cat") // lives until its stdin is closed
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o, err := OwnerOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !o.Alive() {
		t.Error("a running process is taken for dead")
	}
	in.Close()
	_, _ = out.Read(make([]byte, 1)) // end of file: it exits now
	for o.Alive() {                  // until it is a zombie; it is reaped only below
		continue
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if o.Alive() {
		t.Error("a reaped process is taken for alive")
	}
}

// The command's name is the process's own choice, so it must not shift the fields after it.
func TestStartTimeBehindAHostileName(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "proc/7")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	stat := "7 (a) Z 1 (b c) S 1 7 7 0 -1 4194560 1 0 0 0 3 4 0 0 20 0 1 0 4711 1000 10 18446744073709551615 0 0\n"
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644); err != nil {
		t.Fatal(err)
	}
	start, state, err := processStart(root, 7)
	if err != nil || start != 4711 || state != 'S' {
		t.Errorf("start %d, state %c, %v", start, state, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte("7 (a"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := processStart(root, 7); err == nil {
		t.Error("a cut line was accepted")
	}
}

func TestParseOwnerRefuses(t *testing.T) {
	for _, s := range []string{"", "a", "a.1", "a.0.1", "a.-4.1", "a.x.1", "a.1.x", ".1.1", "a.1.1.1", "a.1.-1"} {
		if o, err := ParseOwner(s); err == nil {
			t.Errorf("%q was read as %v", s, o)
		}
	}
}
