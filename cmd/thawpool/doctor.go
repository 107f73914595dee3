package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/actors/ops"
	"github.com/thawpool/thawpool/runtime/daemon"
	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/host/prepare"
)

// doctorReport is what `doctor --json` prints.
type doctorReport struct {
	OK     bool         `json:"ok"`   // sandboxes can run
	User   string       `json:"user"` // the account that was checked
	Checks []host.Check `json:"checks"`
	// Running is what the processes that serve now say: they may see the machine otherwise, and know how calls go.
	Running []ops.Checked `json:"running,omitempty"`
}

// newDoctorCommand checks this machine. The last checks, which need the private daemon, are made only when nothing before
// them failed: daemon, image, and a real sandbox booted, frozen, thawed and run.
func newDoctorCommand(a *app) *cobra.Command {
	var asJSON, sandbox bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether sandboxes can run here, and say what is missing",
		Long: "Check whether sandboxes can run here. Each line is one check; a failure shows its cause and the command that mends it.\n" +
			"What running thawpool processes of the user find is told too.\n" +
			"The exit status is 0 when sandboxes can run. As root it checks the service account " + host.Account + ". It changes nothing.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if sandbox {
				return a.inspect(cmd.Context(), cmd.OutOrStdout(), asJSON)
			}
			report, err := a.diagnose(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				err = report.print(cmd.OutOrStdout())
			}
			if err == nil && !report.OK {
				err = errors.New("sandboxes cannot run here")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&sandbox, "sandbox", false, "boot a sandbox and print how the kernel really confines it, in place of the checks")
	return cmd
}

// diagnose makes the checks for whoever would run the sandboxes. As root that is the service account: once it can reach
// this program, it looks for itself, because only its own look proves anything.
func (a *app) diagnose(ctx context.Context) (doctorReport, error) {
	uid, itself := os.Geteuid(), true
	if realRoot() {
		account, err := findAccount()
		if err != nil {
			return noAccount(a.cfg.BinDir, err), nil
		}
		if err := a.diagnoseAs(account); err != nil {
			return doctorReport{}, err
		}
		uid, itself = account.uid, false
	}
	stateDir := a.cfg.StateDir
	if a.sources["state-dir"] == fromDefault {
		stateDir = "" // the account's own default, which need not be the caller's
	}
	r := doctorReport{User: userName(uid), Checks: host.PreflightIn(uid, a.cfg.BinDir, stateDir)}
	r.OK = host.FirstFailure(r.Checks) == nil
	if r.OK && itself {
		r.Checks = append(r.Checks, a.liveChecks(ctx)...)
		r.OK = host.FirstFailure(r.Checks) == nil
	}
	if itself {
		var err error
		if r.Running, err = ops.FindChecks(ctx, filepath.Join(a.cfg.StateDir, daemon.StatusDir)); err != nil {
			return r, err
		}
	}
	return r, nil
}

// diagnoseAs goes on as the account, when it can reach this program. It returns when it cannot.
func (a *app) diagnoseAs(account serviceAccount) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	start, ok := prepare.Installed(exe, account.uid)
	if !ok {
		return nil
	}
	r, err := a.reads()
	if err != nil {
		return err
	}
	return account.become(start, os.Args[1:], r)
}

// noAccount is the report for root when nothing was prepared yet: what is missing first, then what the machine is like.
func noAccount(binDir string, cause error) doctorReport {
	missing := host.Check{
		ID: "account", Title: "service account", Fatal: true,
		Cause: "the account " + host.Account + ", which runs sandboxes for root, does not exist: " + cause.Error(),
		Fix:   host.SetupCommand(0),
	}
	return doctorReport{User: host.Account, Checks: append([]host.Check{missing}, host.MachineChecks(0, binDir)...)}
}

func userName(uid int) string {
	if u, err := host.LookupUser(uid); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}

// writeRunning tells of a running process what is wrong there.
func writeRunning(b *strings.Builder, p ops.Checked) {
	if p.Error != "" {
		fmt.Fprintf(b, "warn  thawpool %d: %s\n", p.PID, printable(p.Error))
		return
	}
	good := 0
	for _, c := range p.Checks {
		if c.OK {
			good++
		}
	}
	word := "ok  "
	if !p.Health.Ready || good < len(p.Checks) {
		word = "warn"
	}
	fmt.Fprintf(b, "%s  thawpool %d: ", word, p.PID)
	if p.Health.Ready {
		b.WriteString("ready")
	} else {
		fmt.Fprintf(b, "not ready: %s", printable(strings.Join(p.Health.Causes, "; ")))
	}
	fmt.Fprintf(b, "; %d of %d checks good\n", good, len(p.Checks))
	for _, c := range p.Checks {
		if !c.OK {
			fmt.Fprintf(b, "      %s: %s\n", c.Title, printable(c.Detail))
		}
	}
}

// print writes one line a check, and below a failure its cause and mend.
func (r doctorReport) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "checks for %s\n", r.User)
	for _, c := range r.Checks {
		switch {
		case c.OK:
			fmt.Fprintf(&b, "ok    %s: %s\n", c.Title, c.Detail)
		case c.Fatal:
			fmt.Fprintf(&b, "FAIL  %s: %s\n", c.Title, c.Cause)
		default:
			fmt.Fprintf(&b, "warn  %s: %s\n", c.Title, c.Cause)
		}
		if !c.OK && c.Fix != "" {
			fmt.Fprintf(&b, "      mend it: %s\n", c.Fix)
		}
	}
	for _, p := range r.Running {
		writeRunning(&b, p)
	}
	if r.OK {
		b.WriteString("sandboxes can run\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
