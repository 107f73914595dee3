package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/user"
)

// statusOf is /proc/PID/status by its names.
func statusOf(dir string) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields, nil
}

// readStatus needs no user namespace yet: ids are the host's until readMaps.
func readStatus(r *Report, dir string) error {
	s, err := statusOf(dir)
	if err != nil {
		return err
	}
	r.Capabilities = map[string]string{}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		r.Capabilities[set] = s[set]
	}
	r.NoNewPrivs = s["NoNewPrivs"] == "1"
	numbers := map[string]*int{"Seccomp": &r.Seccomp, "Seccomp_filters": &r.Filters}
	for name, to := range numbers {
		if *to, err = strconv.Atoi(s[name]); err != nil {
			return fmt.Errorf("status of the process: %s: %w", name, err)
		}
	}
	for name, to := range map[string]*[]int{"Uid": &r.UIDs, "Gid": &r.GIDs, "Groups": &r.Groups} {
		for word := range strings.FieldsSeq(s[name]) {
			id, err := strconv.Atoi(word)
			if err != nil {
				return fmt.Errorf("status of the process: %s: %w", name, err)
			}
			*to = append(*to, id)
		}
	}
	score, err := os.ReadFile(filepath.Join(dir, "oom_score_adj"))
	if err != nil {
		return err
	}
	r.OOMScoreAdj, err = strconv.Atoi(strings.TrimSpace(string(score)))
	return err
}

// readMaps reads the user namespace's maps, and turns ids into what the process itself sees.
func readMaps(r *Report, dir string) error {
	for name, to := range map[string]*[]IDRange{"uid_map": &r.UIDMap, "gid_map": &r.GIDMap} {
		ranges, err := user.ParseIDMapFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for _, m := range ranges {
			*to = append(*to, IDRange{Inside: m.ID, Outside: m.ParentID, Count: m.Count})
		}
	}
	if len(r.UIDs) > 0 {
		r.HostUID = r.UIDs[0]
	}
	for _, ids := range []struct {
		ids  []int
		maps []IDRange
	}{{r.UIDs, r.UIDMap}, {r.GIDs, r.GIDMap}, {r.Groups, r.GIDMap}} {
		for i, id := range ids.ids {
			ids.ids[i] = inside(ids.maps, id)
		}
	}
	return nil
}

// inside is the id of a user namespace that is this one of the host; -1 when there is none.
func inside(maps []IDRange, id int) int {
	for _, m := range maps {
		if n := int64(id); n >= m.Outside && n < m.Outside+m.Count {
			return int(n - m.Outside + m.Inside)
		}
	}
	return -1
}

// rlimitNames are the lines of /proc/PID/limits by their OCI names, less RLIMIT_.
var rlimitNames = map[string]string{
	"Max cpu time": "CPU", "Max file size": "FSIZE", "Max data size": "DATA", "Max stack size": "STACK",
	"Max core file size": "CORE", "Max resident set": "RSS", "Max processes": "NPROC", "Max open files": "NOFILE",
	"Max locked memory": "MEMLOCK", "Max address space": "AS", "Max file locks": "LOCKS",
	"Max pending signals": "SIGPENDING", "Max msgqueue size": "MSGQUEUE", "Max nice priority": "NICE",
	"Max realtime priority": "RTPRIO", "Max realtime timeout": "RTTIME",
}

func readRlimits(r *Report, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "limits"))
	if err != nil {
		return err
	}
	r.Rlimits = map[string]Rlimit{}
	for line := range strings.Lines(string(data)) {
		for title, name := range rlimitNames {
			rest, ok := strings.CutPrefix(line, title+" ")
			if values := strings.Fields(rest); ok && len(values) > 1 {
				r.Rlimits[name] = Rlimit{Soft: values[0], Hard: values[1]}
			}
		}
	}
	if len(r.Rlimits) != len(rlimitNames) {
		return fmt.Errorf("%s/limits has %d of %d limits", dir, len(r.Rlimits), len(rlimitNames))
	}
	return nil
}

// readEnvironment keeps names only: values may be anybody's secrets.
func readEnvironment(r *Report, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return err
	}
	for variable := range strings.SplitSeq(string(data), "\x00") {
		if name, _, ok := strings.Cut(variable, "="); ok {
			r.Environment = append(r.Environment, name)
		}
	}
	slices.Sort(r.Environment)
	return nil
}
