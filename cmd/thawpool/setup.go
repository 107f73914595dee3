package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thawpool/thawpool/runtime/host"
	"github.com/thawpool/thawpool/runtime/host/prepare"
)

// newSetupCommand prepares this machine, as root.
func newSetupCommand() *cobra.Command {
	var users []string
	var undo bool
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Prepare this machine for sandboxes (root)",
		Long: "Prepare this machine for sandboxes, as root: the service account " + host.Account + ", or with --user an existing ordinary\n" +
			"user, gets subordinate ids, newuidmap and delegated control groups. Only what is missing is changed, each change is\n" +
			"printed, and --undo takes back what was made. It may be repeated at any time.",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{unconfigured: "true"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			say := func(line string) { fmt.Fprintln(cmd.OutOrStdout(), line) }
			if err := needRoot(users); err != nil {
				return err
			}
			p := prepare.New(say)
			if undo {
				return p.Undo(cmd.Context(), users)
			}
			if len(users) == 0 {
				users = []string{host.Account}
			}
			return runSetup(cmd.Context(), p, users, say)
		},
	}
	cmd.Flags().StringSliceVar(&users, "user", nil,
		"prepare this existing ordinary `NAME` instead of the service account (repeatable; name "+host.Account+" too for both)")
	cmd.Flags().BoolVar(&undo, "undo", false, "take back what setup made, for --user or for all")
	return cmd
}

// needRoot refuses everybody else with the command to run instead.
func needRoot(users []string) error {
	if os.Geteuid() != 0 {
		command := host.SetupCommand(os.Geteuid())
		if len(users) > 0 {
			command, _, _ = strings.Cut(command, " --user")
			command += " --user " + strings.Join(users, ",")
		}
		return fmt.Errorf("%w: run  %s", prepare.ErrNotRoot, command)
	}
	if !realRoot() {
		return fmt.Errorf("%w of the machine itself: this is root only inside a user namespace", prepare.ErrNotRoot)
	}
	return nil
}

// runSetup prepares for the users and says for each whether sandboxes can run now, and how to start.
func runSetup(ctx context.Context, p *prepare.Preparer, users []string, say func(string)) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this executable: %w", err)
	}
	if err := p.Run(ctx, prepare.Options{Users: users, BinDir: filepath.Dir(exe)}); err != nil {
		return err
	}
	var errs []error
	for _, name := range users {
		errs = append(errs, setupResult(p, exe, name, say))
	}
	return errors.Join(errs...)
}

// setupResult checks what root can check for the account.
func setupResult(p *prepare.Preparer, exe, name string, say func(string)) error {
	u, err := host.LookupName(name)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return fmt.Errorf("uid of %s: %w", name, err)
	}
	start, err := p.Install(exe, uid)
	if err != nil {
		return fmt.Errorf("install the programs for %s: %w", name, err)
	}
	if err := host.FirstFailure(host.Preflight(uid, filepath.Dir(start))); err != nil {
		return err
	}
	who := "as " + u.Username
	if u.Username == host.Account {
		who, start = "as root", exe
	}
	say(fmt.Sprintf("%s is ready for sandboxes: check with  %s doctor  (%s)", u.Username, start, who))
	return nil
}
