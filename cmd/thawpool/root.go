package main

import (
	"errors"
	"os"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thawpool/thawpool/actors"
)

// app is what the commands share. It is complete once a command's own code runs.
type app struct {
	cfg        Config
	options    []option
	flags      *pflag.FlagSet
	configFile string
	sources    map[string]string // option name → where its value came from
	warnings   []string          // about the configuration, for the log
	files      []string          // operands that name files to read
	log        zerolog.Logger
	hub        *actors.Hub // of commands that run code for a user
	inside     *inside     // of serve: what operators see
}

func newApp() *app {
	a := &app{cfg: defaultConfig(), log: zerolog.Nop()}
	a.options = options(&a.cfg)
	a.flags = flagSet(a.options)
	return a
}

// unconfigured marks commands that work without configuration, also with a broken one.
const unconfigured = "unconfigured"

func newRoot() *cobra.Command {
	a := newApp()
	root := &cobra.Command{
		Use:   "thawpool",
		Short: "Run Python for agents in fresh, frozen, rootless sandboxes",
		Long: `thawpool lets an LLM agent run Python safely and at once. Every call takes a fresh, already started, frozen
rootless sandbox from a pool, thaws it, runs the code in it, answers, and destroys it.

Put "thawpool serve" into an MCP client's config, or try:  echo 'print(6*7)' | thawpool run -`,
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Name() == "run" || cmd.Name() == "import" {
				a.files = args
			}
			if cmd.Annotations[unconfigured] != "" || cmd.Parent() != nil && cmd.Parent().Name() == "completion" || cmd.Name() == cobra.ShellCompRequestCmd {
				return nil
			}
			return a.configure(cmd)
		},
	}
	root.SetVersionTemplate("thawpool {{.Version}}\n")
	root.PersistentFlags().StringVar(&a.configFile, configFlag, "", "config `file`, .yaml, .toml or .json (default thawpool/config.* in the user's config directory)")
	_ = root.MarkPersistentFlagFilename(configFlag, "yaml", "yml", "toml", "json")
	a.addCommands(root)
	return root
}

// addCommands adds the commands, each with the flags of what it uses.
func (a *app) addCommands(root *cobra.Command) {
	add := func(cmd *cobra.Command, which ...group) {
		a.addFlags(cmd, which...)
		root.AddCommand(cmd)
	}
	serve := newServeCommand(a)
	addCPUProfile(serve)
	add(serve, groups...)
	add(newRunCommand(a), groupServers, groupLimits, groupSandbox, groupDaemon, groupLog)
	add(newSetupCommand())
	add(newDoctorCommand(a), groupLimits, groupSandbox, groupDaemon, groupLog)
	images := newImageCommand(a.openImages)
	for _, cmd := range images.Commands() {
		a.addFlags(cmd, groupDaemon, groupLog)
	}
	add(images)
	servers := newServersCommand(a.openCatalog, a.checkServer)
	for _, cmd := range servers.Commands() {
		a.addFlags(cmd, groupServers, groupDaemon, groupLog)
	}
	add(servers)
	add(newStatusCommand(a), groupDaemon)
	add(newDaemonCommand())
	add(newDemoCommand())
	add(newBenchCommand(a), groupPool, groupLimits, groupSandbox, groupDaemon, groupLog)
	add(newBenchUpstreamCommand())
	add(newBenchFrontCommand())
	add(newConfigCommand(a), groups...)
	add(newVersionCommand(a))
}

// configure loads the configuration and makes the log, which also travels in the command's context. What whoever started
// the command had open is not for the processes that it starts: from root these are files for this one alone.
func (a *app) configure(cmd *cobra.Command) error {
	err := closeOthersOnExec()
	if err != nil {
		return err
	}
	a.sources, a.cfg.ProfileTables, a.warnings, err = load(a.options, a.flags, a.configFile)
	if err := errors.Join(err, a.withSources(a.cfg.Validate())); err != nil {
		return err
	}
	if cmd.Name() != "serve" && a.sources["log-level"] == fromDefault {
		a.cfg.LogLevel = "warn" // a person reads stderr
	}
	a.log = newLog(&a.cfg, os.Stderr)
	cmd.SetContext(a.log.WithContext(cmd.Context()))
	return nil
}

// withSources tells of each field that Validate names where its value came from.
func (a *app) withSources(err error) error {
	all, ok := err.(interface{ Unwrap() []error }) // what errors.Join gave, itself
	if !ok {
		return err
	}
	for _, e := range all.Unwrap() {
		var field *FieldError
		if errors.As(e, &field) && a.sources[field.Field] != fromDefault {
			field.Source = a.sources[field.Field]
		}
	}
	return err
}

// drop makes a command that was started by root go on as the service account, with the same configuration; see
// dropToAccount. Everything that runs sandboxes calls it first.
func (a *app) drop() error {
	if realRoot() {
		r, err := a.reads()
		if err != nil {
			return err
		}
		return dropToAccount(os.Args[1:], r)
	}
	for _, w := range a.warnings {
		a.log.Warn().Msg(w)
	}
	return nil
}

// reads is what root's command reads: files that operands or options name, and root's own files, which the account would
// not look for.
func (a *app) reads() (reads, error) {
	r := reads{operands: a.files, options: map[string][]string{}}
	definitions, err := a.rootsDefinitions()
	if err != nil {
		return r, err
	}
	config, err := configPath(a.configFile)
	if err != nil {
		return r, err
	}
	o := a.cfg.Ops
	for name, files := range map[string][]string{
		configFlag: {config}, "servers-config": definitions, "add-catalog": {a.cfg.Servers.AddCatalog},
		"listen-token-file": {o.TokenFile}, "listen-cert": {o.CertFile}, "listen-key": {o.KeyFile},
	} {
		if strings.Join(files, "") != "" {
			r.options[name] = files
		}
	}
	return r, nil
}
