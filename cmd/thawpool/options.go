package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thawpool/thawpool/pool"
)

// envPrefix and legacyPrefix begin the names of environment variables: ours, and the reference bridge's.
const (
	envPrefix    = "THAWPOOL_"
	legacyPrefix = "MCP_BRIDGE_"
)

// group says which commands an option is a flag of. Variables and the file set it for all of them.
type group string

const (
	groupPool    group = "Pool"
	groupLimits  group = "Limits of a call"
	groupSandbox group = "Sandbox"
	groupDaemon  group = "Runtime"
	groupFront   group = "Answers"
	groupServers group = "Servers that code can call"
	groupLog     group = "Log"
)

// groups in the order in which the documentation shows them.
var groups = []group{groupPool, groupLimits, groupSandbox, groupDaemon, groupFront, groupServers, groupOps, groupLog}

// option is one thing that can be set: by --name, THAWPOOL_NAME, the legacy variable, or the key name in the file.
type option struct {
	name   string
	group  group
	legacy string // without its prefix; "" when the reference bridge has no such variable
	help   string
	show   string // the default as help shows it, where the real one differs by machine
	value  pflag.Value
}

// env is the option's variable.
func (o option) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.name, "-", "_"))
}

// options ties every option to its place in c.
func options(c *Config) []option {
	return append([]option{
		{name: "pool-size", group: groupPool, value: &c.PoolSize, help: "frozen sandboxes kept ready; auto follows the calls"},
		{name: "pool-max", group: groupPool, value: intValue[int]{&c.Pool.Max}, help: "sandboxes at once, in any state"},
		{name: "pool-refill", group: groupPool, value: intValue[int]{&c.Pool.Refill}, show: "processors, at least 2", help: "boots side by side that keep the pool filled"},
		{name: "pool-max-age", group: groupPool, value: (*durationValue)(&c.Pool.MaxAge), help: "a ready sandbox older than this is replaced"},
		{name: "pool-empty", group: groupPool, value: textValue[pool.Empty]{p: &c.Pool.Empty, kind: "wait|cold|refuse"},
			help: "what a call gets when none is ready: the next one, a boot of its own, or a refusal"},
		{name: "queue", group: groupPool, value: intValue[int]{&c.Pool.Queue}, help: "calls that may wait for a sandbox"},
		{name: "queue-wait", group: groupPool, value: (*durationValue)(&c.Pool.QueueWait), help: "how long a call waits before it is rejected"},

		{name: "timeout", group: groupLimits, legacy: "TIMEOUT", value: (*durationValue)(&c.Timeout), help: "how long code may run when its call asks for nothing"},
		{name: "max-timeout", group: groupLimits, legacy: "MAX_TIMEOUT", value: (*durationValue)(&c.MaxTimeout), help: "the most that a call may ask for"},
		{name: "memory", group: groupLimits, legacy: "MEMORY", value: (*sizeValue)(&c.Limits.Memory), help: "memory of one sandbox, files in /tmp and /workspace included"},
		{name: "pids", group: groupLimits, legacy: "PIDS", value: intValue[int64]{&c.Limits.PIDs}, help: "processes and threads in one sandbox"},
		{name: "tmp", group: groupLimits, value: (*sizeValue)(&c.Limits.Tmp), help: "size of each of /tmp and /workspace"},
		{name: "output-max", group: groupLimits, value: (*sizeValue)(&c.OutputMax), help: "the most of stdout, and of stderr, that an answer holds; head and tail are kept"},

		{name: "image", group: groupSandbox, legacy: "IMAGE", value: textValue[string]{p: &c.Image, kind: "ref"},
			help: "image of the sandboxes; default is the built-in CPython, others come by thawpool image"},
		{name: "preload", group: groupSandbox, value: &listValue{p: &c.Preload}, help: "modules to import before the freeze, such as numpy,pandas"},
		{name: "profile", group: groupSandbox, value: textValue[string]{p: &c.Profile, kind: "name"},
			help: "pool of calls that name none; the config file's table profiles defines more"},
		{name: "runtime", group: groupSandbox, value: textValue[string]{p: &c.Runtime, kind: "name"}, show: "thawpool's own",
			help: "containerd runtime, for example io.containerd.runc.v2"},
		{name: "shim-tasks", group: groupSandbox, value: intValue[int]{&c.ShimTasks}, help: "sandboxes served by one shim process"},

		{name: "daemon-idle", group: groupDaemon, legacy: "RUNTIME_IDLE_TIMEOUT", value: (*durationValue)(&c.DaemonIdle), help: "the private containerd stops when unused for this long"},
		{name: "containerd-address", group: groupDaemon, value: textValue[string]{p: &c.ContainerdAddress, kind: "socket"}, show: "a private one",
			help: "use this rootless containerd"},
		{name: "state-dir", group: groupDaemon, legacy: "STATE_DIR", value: dirValue{textValue[string]{p: &c.StateDir, kind: "dir"}}, show: "$XDG_STATE_HOME/thawpool",
			help: "where everything is kept"},
		{name: "bin-dir", group: groupDaemon, value: dirValue{textValue[string]{p: &c.BinDir, kind: "dir"}}, show: "beside thawpool",
			help: "where containerd, its shim, runc and rootlesskit are"},

		{name: "output-mode", group: groupFront, legacy: "OUTPUT_MODE", value: textValue[string]{p: &c.OutputMode, kind: "compact|toon", lower: true},
			help: "form of the text that the model reads"},

		{name: "log-level", group: groupLog, legacy: "LOG_LEVEL", value: textValue[string]{p: &c.LogLevel, kind: "level", lower: true, alias: legacyLevels},
			show: "info for serve, else warn", help: "trace, debug, info, warn or error"},
		{name: "log-format", group: groupLog, value: textValue[string]{p: &c.LogFormat, kind: "auto|json|console", lower: true},
			help: "auto is console on a terminal and json elsewhere"},
	}, append(serverOptions(&c.Servers), opsOptions(&c.Ops)...)...)
}

// legacyLevels are the log levels of the reference bridge, Python's, that have another name here.
var legacyLevels = map[string]string{"warning": "warn", "critical": "error", "fatal": "error", "notset": "trace"}

// ignoredLegacy are variables of the reference bridge that have no meaning here, and why.
var ignoredLegacy = map[string]string{
	"RUNTIME":        "sandboxes are tasks of a rootless containerd",
	"CPUS":           "sandboxes share all processors",
	"CONTAINER_USER": "code always runs as uid 65534",
}

// legacyNotes is ignoredLegacy as sentences.
func legacyNotes() (notes []string) {
	for _, name := range slices.Sorted(maps.Keys(ignoredLegacy)) {
		notes = append(notes, fmt.Sprintf("`%s%s`: %s", legacyPrefix, name, ignoredLegacy[name]))
	}
	return notes
}

// flagSet makes a flag of every option.
func flagSet(opts []option) *pflag.FlagSet {
	set := pflag.NewFlagSet("options", pflag.ContinueOnError)
	for _, o := range opts {
		f := set.VarPF(o.value, o.name, "", o.help)
		if o.show != "" {
			f.DefValue = o.show
		}
		if _, ok := o.value.(boolValue); ok {
			f.NoOptDefVal = "true"
		}
	}
	return set
}

// addFlags gives cmd the flags of the options in the named groups.
func (a *app) addFlags(cmd *cobra.Command, which ...group) {
	for _, o := range a.options {
		if slices.Contains(which, o.group) {
			cmd.Flags().AddFlag(a.flags.Lookup(o.name))
		}
	}
}
