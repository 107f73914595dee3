package daemon

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/thawpool/thawpool/runtime/host"
)

// The phases of a keeper's life that others see.
const (
	phaseStarting = "starting" // also while a dead daemon is replaced
	phaseReady    = "ready"
	phaseFailed   = "failed" // with an error; the keeper has ended
)

// record is what a keeper tells those who look for it, in keeper.json. It is only worth something while keeper.lock is
// held, except for the error of a failed one.
type record struct {
	Keeper string `json:"keeper"` // host.Owner
	Phase  string `json:"phase"`
	Error  string `json:"error,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Where sandboxes' control groups are.
	Cgroup   host.Version `json:"cgroup,omitempty"`
	HostPath string       `json:"hostPath,omitempty"`
	SpecPath string       `json:"specPath,omitempty"`
}

func (l layout) readRecord() (record, error) {
	var r record
	data, err := os.ReadFile(l.path("keeper.json"))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the keeper's record: %w", err)
	}
	return r, nil
}

// write replaces the record in one step.
func (r record) write(l layout) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := l.path(fmt.Sprintf(".keeper.json.%d", os.Getpid()))
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return fmt.Errorf("write the keeper's record: %w", err)
	}
	return os.Rename(temp, l.path("keeper.json"))
}
