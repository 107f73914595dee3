package realup

import (
	"os/exec"
	"testing"
)

func TestPythonRuns(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(Python(t), "-I", "-c", "print(6*7)").CombinedOutput()
	if err != nil || string(out) != "42\n" {
		t.Errorf("%s, %v", out, err)
	}
}
