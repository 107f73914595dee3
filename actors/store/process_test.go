package store

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// TestMain lets the test binary be a second thawpool process: the tests start it again with roleVar set.
func TestMain(m *testing.M) {
	role, dir, _ := strings.Cut(os.Getenv(roleVar), ":")
	if role == "" {
		os.Exit(m.Run())
	}
	s, err := Open(dir, DefaultLimits(), zerolog.Nop())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(roles[role](s))
}

const (
	roleVar    = "STORE_TEST_ROLE"
	goroutines = 20
	increments = 5
)

var roles = map[string]func(*Store) int{
	"increment": func(s *Store) int {
		r := &reporter{}
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() { increment(context.Background(), r, s, increments) })
		}
		wg.Wait()
		return r.failed()
	},
	"write": func(s *Store) int { // until it is killed
		value := json.RawMessage(`"` + strings.Repeat("v", 256<<10) + `"`)
		for i := 0; ; i++ {
			if _, err := s.Save(context.Background(), "victim", value, SaveOptions{}); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			fmt.Println("saved")
		}
	},
}

// reporter is the part of testing.TB that increment needs.
type reporter struct {
	testing.TB
	mu    sync.Mutex
	wrong bool
}

func (r *reporter) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = true
	fmt.Fprintln(os.Stderr, args...)
}

func (r *reporter) failed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong {
		return 1
	}
	return 0
}

func again(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), roleVar+"="+role+":"+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestTwoProcessesLoseNoUpdate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := again(t, "increment", dir), again(t, "increment", dir)
	for _, cmd := range []*exec.Cmd{first, second} {
		check(t, cmd.Start())
	}
	for _, cmd := range []*exec.Cmd{first, second} {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	m, err := open(t, dir, nil).Load(t.Context(), "counter")
	if want := fmt.Sprint(2 * goroutines * increments); err != nil || string(m.Value) != want {
		t.Errorf("got %s, %v, want %s", m.Value, err, want)
	}
}

func TestKilledWriterHarmsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round := range 5 {
		cmd := again(t, "write", dir)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range round + 1 { // killed at no particular point of a later save
			lines.Scan()
		}
		check(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed: that is its error

		s := open(t, dir, nil)
		m, err := s.Load(t.Context(), "victim")
		if err != nil || len(m.Value) != 256<<10+2 {
			t.Fatalf("round %d: %d bytes, %v", round, len(m.Value), err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "memory", ".new")); err != nil || len(left) > 0 {
			t.Errorf("round %d: left behind: %v, %v", round, left, err)
		}
		save(t, s, "other", fmt.Sprint(round))
	}
}
