package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"

	mobyuser "github.com/moby/sys/user"
	"golang.org/x/sys/unix"
)

// MinSubIDs is how many subordinate ids a user needs: a sandbox's processes run as 65534, and every id below exists too.
const MinSubIDs = 65536

// capXattr carries a file's capabilities; some distributions ship newuidmap with these instead of the setuid bit.
const capXattr = "security.capability"

// idMapDirs are where newuidmap is looked for besides PATH, which a service may have cut short.
var idMapDirs = []string{"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin"}

// idMapTools checks newuidmap and newgidmap, which map the subordinate ids of an ordinary user.
func (h machine) idMapTools() Check {
	c := Check{ID: "newuidmap", Title: "newuidmap and newgidmap", Fatal: true}
	var found []string
	for _, name := range []string{"newuidmap", "newgidmap"} {
		path := h.find(name)
		if path == "" {
			return c.broken(h.installIDMap(), "%s is not installed", name)
		}
		if !raisesPrivileges(path) {
			return c.broken("sudo chmod u+s "+path, "%s is neither setuid root nor has the file capability that it needs", path)
		}
		if nosuid(path) {
			return c.broken("sudo mount -o remount,suid "+mountOf(path), "%s is on a file system mounted nosuid, so it cannot work", path)
		}
		found = append(found, path)
	}
	return c.passed("%s", strings.Join(found, ", "))
}

// find is where the program name is on this machine, or "".
func (h machine) find(name string) string {
	if h.root == "" {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	for _, dir := range idMapDirs {
		path := h.path(dir + "/" + name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func raisesPrivileges(path string) bool {
	info, err := os.Stat(path)
	if err == nil && info.Mode()&fs.ModeSetuid != 0 {
		return true
	}
	n, err := unix.Getxattr(path, capXattr, nil)
	return err == nil && n > 0
}

func nosuid(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Flags&unix.ST_NOSUID != 0
}

// mountOf is the mount point that holds path.
func mountOf(path string) string {
	out, err := exec.Command("findmnt", "-n", "-o", "TARGET", "-T", path).Output()
	if err != nil {
		return "/usr"
	}
	return strings.TrimSpace(string(out))
}

// subIDs checks that uid has enough subordinate user and group ids.
func (h machine) subIDs(uid int) Check {
	c := Check{ID: "subids", Title: "subordinate ids", Fatal: true}
	u, err := h.lookup(uid)
	if err != nil {
		return c.broken("sudo "+h.self+" serve   # as root it uses the service account "+Account,
			"uid %d has no entry in the password database, and newuidmap serves only users who have one", uid)
	}
	var details []string
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		count, err := h.countSubIDs(file, u.Username, uid)
		switch {
		case err != nil:
			return c.broken(h.setupCommand(uid), "%s cannot be read: %v", file, err)
		case count == 0:
			return c.broken(h.setupCommand(uid), "%s has no range for %s", file, u.Username)
		case count < MinSubIDs:
			return c.broken(h.setupCommand(uid), "%s gives %s only %d ids, %d are needed", file, u.Username, count, MinSubIDs)
		}
		details = append(details, strconv.FormatInt(count, 10)+" in "+file)
	}
	return c.passed("%s", strings.Join(details, ", "))
}

// countSubIDs counts the ids that a file grants to an account, by its name or its number. Where the file has none,
// a directory service may: getsubids asks it.
func (h machine) countSubIDs(file, name string, uid int) (int64, error) {
	ranges, err := mobyuser.ParseSubIDFileFilter(h.path(file), func(s mobyuser.SubID) bool {
		return s.Name == name || s.Name == strconv.Itoa(uid)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	var count int64
	for _, r := range ranges {
		count += r.Count
	}
	if count == 0 && h.root == "" {
		count = askSubIDs(file, name)
	}
	return count, nil
}

// askSubIDs reads lines such as "0: alice 100000 65536".
func askSubIDs(file, name string) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), getentWait)
	defer cancel()
	args := []string{name}
	if strings.HasSuffix(file, "subgid") {
		args = []string{"-g", name}
	}
	out, err := exec.CommandContext(ctx, "getsubids", args...).Output()
	if err != nil {
		return 0 // not installed, or nothing there: the file's answer stands
	}
	var count int64
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 4 {
			n, _ := strconv.ParseInt(f[3], 10, 64)
			count += n
		}
	}
	return count
}
