package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/thawpool/thawpool/runtime/ctrd"
)

// Tally is what a keeper has done since it started. It is in a file, because those who want to know are other processes.
type Tally struct {
	Sweeps        int64      `json:"sweeps"`
	SweepFailures int64      `json:"sweepFailures"`
	Removed       ctrd.Found `json:"removed"`
	Replaced      int64      `json:"replaced"` // daemons that died, hung, or did not come up
}

const tallyFile = "keeper-tally.json"

// ReadTally reads the tally of the keeper of a state directory.
func ReadTally(stateDir string) (t Tally, err error) {
	data, err := os.ReadFile(filepath.Join(stateDir, tallyFile))
	if err == nil {
		err = json.Unmarshal(data, &t)
	}
	if err != nil {
		return t, fmt.Errorf("read the keeper's tally: %w", err)
	}
	return t, nil
}

// tally counts for one keeper.
type tally struct {
	mu  sync.Mutex // sweeps end beside the keeper's goroutine
	now Tally
}

// note changes the tally and writes it. What cannot be written comes with the next one.
func (k *keeper) note(change func(*Tally)) {
	k.tally.mu.Lock()
	defer k.tally.mu.Unlock()
	change(&k.tally.now)
	data, err := json.Marshal(k.tally.now)
	temp := k.layout.path("." + tallyFile)
	if err == nil {
		err = os.WriteFile(temp, data, 0o600)
	}
	if err == nil {
		err = os.Rename(temp, k.layout.path(tallyFile))
	}
	if err != nil {
		k.log.Debug().Err(err).Msg("the tally was not written")
	}
}
