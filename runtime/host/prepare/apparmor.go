package prepare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/thawpool/thawpool/runtime/host"
)

// appArmor lets our two programs that make user namespaces do so where AppArmor forbids that to programs without a
// profile. The profile confines and allows nothing else. It names every directory that setup was run from.
func (p *Preparer) appArmor(ctx context.Context, binDir string) error {
	if binDir == "" || !p.restricted() {
		return nil
	}
	have, _ := os.ReadFile(p.path(host.AppArmorProfile)) // absent allows nothing
	dirs := host.ProfileDirs(have)
	for _, dir := range []string{binDir, InstallDir + "/*"} {
		if !slices.Contains(dirs, dir) && !host.ProfileAllows(have, dir) {
			dirs = append(dirs, dir)
		}
	}
	text, err := profileText(dirs)
	if err != nil {
		return err
	}
	if bytes.Equal(have, text) {
		return nil
	}
	p.rec.AppArmor = true
	if err := p.save(); err != nil {
		return err
	}
	if err := p.replaceFile(host.AppArmorProfile, text, 0o644); err != nil {
		return fmt.Errorf("apparmor profile: %w", err)
	}
	if err := p.run(ctx, "apparmor_parser", "-r", host.AppArmorProfile); err != nil {
		return err
	}
	p.say("wrote and loaded %s: AppArmor allows user namespaces to the programs in %s", host.AppArmorProfile, binDir)
	return nil
}

func (p *Preparer) restricted() bool {
	data, _ := os.ReadFile(p.path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) // absent is unrestricted
	return strings.TrimSpace(string(data)) == "1"
}

// profileText is the profile file: for each directory a mark that ProfileDirs reads, and a profile of its own.
func profileText(dirs []string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("# Written by thawpool setup; removed by thawpool setup --undo.\nabi <abi/4.0>,\ninclude <tunables/global>\n")
	for i, dir := range dirs {
		if strings.ContainsAny(strings.TrimSuffix(dir, "/*"), "\"\\*?[]{}^\n") {
			return nil, fmt.Errorf("apparmor profile: %q holds characters that a profile cannot name: move thawpool elsewhere", dir)
		}
		fmt.Fprintf(&b, "\n%sprofile thawpool-%d \"%s/{thawpool,rootlesskit}\" flags=(unconfined) {\n  userns,\n}\n",
			host.ProfileLine(dir), i, dir)
	}
	return b.Bytes(), nil
}
