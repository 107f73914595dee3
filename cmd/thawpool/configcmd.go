package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newConfigCommand shows the configuration in force.
func newConfigCommand(a *app) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration in force, and where each value comes from",
		Long: "Print the configuration in force as a config file, with where each value comes from. Flags, variables and the file are\n" +
			"read as by the other commands, so that \"thawpool config\" with a command's flags shows what that command would use.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, w := range a.warnings {
				fmt.Fprintln(cmd.ErrOrStderr(), "thawpool: "+w)
			}
			if asJSON {
				return a.printConfigJSON(cmd.OutOrStdout())
			}
			return a.printConfig(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: name → value and source")
	cmd.AddCommand(newMetricsDocsCommand(), &cobra.Command{
		Use:         "docs",
		Hidden:      true,
		Annotations: map[string]string{unconfigured: "yes"},
		Short:       "Print docs/configuration.md",
		Args:        cobra.NoArgs,
		RunE:        func(cmd *cobra.Command, _ []string) error { return printConfigDocs(cmd.OutOrStdout()) },
	})
	return cmd
}

func (a *app) printConfig(w io.Writer) error {
	var b strings.Builder
	for _, o := range a.options {
		fmt.Fprintf(&b, "%-34s # %s\n", o.name+": "+yamlText(o.value.String()), a.sources[o.name])
	}
	for i, name := range slices.Sorted(maps.Keys(a.cfg.Profiles)) {
		if i == 0 {
			b.WriteString(profilesKey + ":\n")
		}
		p := a.cfg.Profiles[name]
		own := p.ownValues()
		if len(own) == 0 {
			fmt.Fprintf(&b, "  %q: {}\n", name)
			continue
		}
		fmt.Fprintf(&b, "  %q:\n", name)
		for _, o := range own {
			fmt.Fprintf(&b, "%-34s # %s\n", "    "+o.name+": "+yamlText(o.value.String()), a.sources[profileField(name, o.name)])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// yamlText quotes what YAML would not read as the same text.
func yamlText(s string) string {
	if s == "" || strings.ContainsAny(s, ":#{}[]&*!|>'\"%@`,\\") || strings.TrimSpace(s) != s {
		q, _ := json.Marshal(s) // a JSON string is a YAML string
		return string(q)
	}
	return s
}

func (a *app) printConfigJSON(w io.Writer) error {
	type entry struct {
		Value  string `json:"value"`
		Source string `json:"source"`
	}
	all := map[string]entry{}
	for _, o := range a.options {
		all[o.name] = entry{o.value.String(), a.sources[o.name]}
	}
	for name, p := range a.cfg.Profiles {
		for _, o := range p.ownValues() {
			field := profileField(name, o.name)
			all[field] = entry{o.value.String(), a.sources[field]}
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(all)
}

const docsHead = `# Configuration

Made by ` + "`thawpool config docs`" + ` from the flags themselves; a test keeps this file current.

Each option can be set in four places. The first that sets it wins:

1. the flag, ` + "`--name`" + `, of the commands that use it;
2. the environment variable ` + "`THAWPOOL_NAME`" + `;
3. for some, the variable of that meaning of mcp-server-code-execution-mode, ` + "`MCP_BRIDGE_…`" + `, so that its users need change nothing;
4. the config file: the one named by ` + "`--config` or `THAWPOOL_CONFIG`" + `, else ` + "`thawpool/config.yaml`" + ` (or .yml, .toml, .json) in the
   user's config directory (` + "`$XDG_CONFIG_HOME`" + `, else ` + "`~/.config`" + `). Its keys are the names without dashes in front; a nested
   table is the same as a longer name (` + "`pool: {size: 4}` is `pool-size: 4`" + `). A key that is no option is an error.

A variable that is set to nothing counts as not set. Sizes are bytes or have a unit (512m, 1GiB: all powers of 1024), times
have units (30s, 1m30s) or are seconds. ` + "`thawpool config`" + ` shows what is in force and where each value comes from, and all that is
wrong is told at once.
`

const docsProfiles = `
## Profiles

A config file can define more pools than the one that the options describe, each of its own kind:

    memory: 256m
    pool-size: 6
    profiles:
      sci:
        image: registry.example.com/sci:1
        preload: [numpy, pandas]
        memory: 2g
        pool-size: 2
        pool-max: 4
      tiny: {memory: 64m, pids: 16}

The same in TOML is ` + "`[profiles.sci]`" + `, in JSON an object. A profile may set ` + "`image`, `preload`, `pool-size`, `pool-max`, `memory`, `pids` and `tmp`" + `;
what it leaves out is as the top level has it, and so is everything else. What it sets holds also against flags and
variables, which speak of the top level; only in ` + "`thawpool run` and `doctor`" + `, which use one profile, flags win. A name is up to 32 letters,
digits, - and _; ` + "`default`" + ` is the top level itself.

With profiles, ` + "`run_python`" + ` has the argument ` + "`profile`" + `, which chooses one; a call without it gets the one that ` + "`--profile`" + ` names.
` + "`thawpool run --profile sci FILE`" + ` uses one from the shell. A profile that cannot boot, for example because its image is not here,
answers its own calls with the cause, tries again, and stops nobody else's.
`

// printConfigDocs writes docs/configuration.md.
func printConfigDocs(w io.Writer) error {
	var b strings.Builder
	b.WriteString(docsHead)
	c := defaultConfig()
	opts := options(&c)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | variable | default | meaning |\n|---|---|---|---|\n", g)
		for _, o := range opts {
			if o.group == g {
				b.WriteString(o.docsRow())
			}
		}
	}
	b.WriteString(docsProfiles)
	b.WriteString("\n## Variables without effect\n\nThese variables of mcp-server-code-execution-mode are told in the log and change nothing.\n\n")
	for _, l := range legacyNotes() {
		fmt.Fprintf(&b, "- %s\n", l)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (o option) docsRow() string {
	shown := o.value.String()
	if o.show != "" {
		shown = o.show
	}
	vars := "`" + o.env() + "`"
	if o.legacy != "" {
		vars += ", `" + legacyPrefix + o.legacy + "`"
	}
	return fmt.Sprintf("| `--%s` %s | %s | %s | %s |\n", o.name, strings.ReplaceAll(o.value.Type(), "|", `\|`), vars, shown, o.help)
}
