package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/pkg/protobuf/types"
	"github.com/containerd/typeurl/v2"
	"github.com/moby/sys/userns"
	"github.com/opencontainers/cgroups"
	_ "github.com/opencontainers/cgroups/devices" // device rules of cgroups, wanted also where they are not applied
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runc/libcontainer/specconv"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

func readSpec(bundle string) (*specs.Spec, error) {
	f, err := os.Open(filepath.Join(bundle, "config.json"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var spec specs.Spec
	if err := json.NewDecoder(f).Decode(&spec); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if spec.Process == nil {
		return nil, fmt.Errorf("config.json has no process")
	}
	if spec.Root == nil {
		spec.Root = &specs.Root{Path: "rootfs"}
	}
	if !filepath.IsAbs(spec.Root.Path) {
		spec.Root.Path = filepath.Join(bundle, spec.Root.Path)
	}
	return &spec, nil
}

// decodeOptions reads runc's options, which clients that know no better send to every runtime. Another type is an error.
func decodeOptions(any *types.Any) (*options.Options, error) {
	if any == nil || any.GetTypeUrl() == "" {
		return &options.Options{}, nil
	}
	v, err := typeurl.UnmarshalAny(any)
	if err != nil {
		return nil, err
	}
	opts, ok := v.(*options.Options)
	if !ok {
		return nil, fmt.Errorf("options of type %T are not known", v)
	}
	return opts, nil
}

func newConfig(id string, spec *specs.Spec, opts *options.Options) (*configs.Config, error) {
	return specconv.CreateLibcontainerConfig(&specconv.CreateOpts{
		CgroupName:       id,
		Spec:             spec,
		UseSystemdCgroup: opts.GetSystemdCgroup(),
		NoPivotRoot:      opts.GetNoPivotRoot(),
		NoNewKeyring:     opts.GetNoNewKeyring(),
		// In a user namespace cgroups may be partly out of reach; the container is root's own there, so not RootlessEUID.
		RootlessCgroups: userns.RunningInUserNS(),
	})
}

// newProcess turns the OCI process into libcontainer's.
func newProcess(p *specs.Process, init bool) (*libcontainer.Process, error) {
	lp := &libcontainer.Process{
		Args: p.Args, Env: p.Env, Cwd: p.Cwd,
		UID: int(p.User.UID), GID: int(p.User.GID),
		Label: p.SelinuxLabel, AppArmorProfile: p.ApparmorProfile,
		NoNewPrivileges: &p.NoNewPrivileges,
		Scheduler:       p.Scheduler, IOPriority: p.IOPriority,
		Init: init,
	}
	for _, gid := range p.User.AdditionalGids {
		lp.AdditionalGroups = append(lp.AdditionalGroups, int(gid))
	}
	if c := p.Capabilities; c != nil {
		lp.Capabilities = &configs.Capabilities{
			Bounding: c.Bounding, Effective: c.Effective, Inheritable: c.Inheritable,
			Permitted: c.Permitted, Ambient: c.Ambient,
		}
	}
	if p.ConsoleSize != nil {
		lp.ConsoleWidth, lp.ConsoleHeight = uint16(p.ConsoleSize.Width), uint16(p.ConsoleSize.Height)
	}
	// Also the init's: specconv puts none into the container's config.
	for _, r := range p.Rlimits {
		t, ok := rlimits[r.Type]
		if !ok {
			return nil, fmt.Errorf("rlimit %q is not known", r.Type)
		}
		lp.Rlimits = append(lp.Rlimits, configs.Rlimit{Type: t, Hard: r.Hard, Soft: r.Soft})
	}
	return lp, nil
}

// applyResources lays an update over the limits that a container has. Unset fields stay as they are.
func applyResources(to *cgroups.Resources, r *specs.LinuxResources) {
	if m := r.Memory; m != nil {
		set(&to.Memory, m.Limit)
		set(&to.MemoryReservation, m.Reservation)
		set(&to.MemorySwap, m.Swap)
	}
	if c := r.CPU; c != nil {
		set(&to.CpuShares, c.Shares)
		set(&to.CpuQuota, c.Quota)
		set(&to.CpuPeriod, c.Period)
		if c.Cpus != "" {
			to.CpusetCpus = c.Cpus
		}
		if c.Mems != "" {
			to.CpusetMems = c.Mems
		}
		if c.Shares != nil {
			to.CpuWeight = cgroups.ConvertCPUSharesToCgroupV2Value(*c.Shares)
		}
	}
	if r.Pids != nil {
		to.PidsLimit = r.Pids.Limit
	}
	if r.BlockIO != nil {
		set(&to.BlkioWeight, r.BlockIO.Weight)
	}
	for k, v := range r.Unified {
		if to.Unified == nil {
			to.Unified = map[string]string{}
		}
		to.Unified[k] = v
	}
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
