package upstream

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// guardScript keeps a list of process groups and kills them when its stdin ends, which happens when its thawpool dies,
// however it dies. A child's Pdeathsig reaches only the child; npx and uvx have the real server below them.
const guardScript = `trap "" INT TERM HUP QUIT PIPE
l=" "
while read -r op group; do
  case $op in
    add) l="$l$group " ;;
    del) case $l in *" $group "*) l="${l%% $group *} ${l#* $group }" ;; esac ;;
  esac
done
for group in $l; do kill -KILL "-$group" 2>/dev/null; done
exit 0`

// Guard is one small shell process beside thawpool that outlives it just long enough to kill the process groups of its
// upstream servers. It is started with the first child. The zero value is ready; it is safe for concurrent use.
type Guard struct {
	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	groups map[int]struct{}
	closed bool
}

// add puts a group under guard. Failing to is no reason not to run the server: the sweep at the next start remains.
func (g *Guard) add(group int) {
	g.tell("add", group)
}

// remove takes a group that is gone off the list.
func (g *Guard) remove(group int) {
	g.tell("del", group)
}

func (g *Guard) tell(op string, group int) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.groups == nil {
		g.groups = map[int]struct{}{}
	}
	if op == "add" {
		g.groups[group] = struct{}{}
	} else {
		delete(g.groups, group)
	}
	if g.closed {
		return
	}
	if g.stdin != nil {
		if _, err := fmt.Fprintf(g.stdin, "%s %d\n", op, group); err == nil {
			return
		}
		g.reap() // somebody killed it: start another that knows them all
	}
	g.start()
}

// start is called with mu held.
func (g *Guard) start() {
	if len(g.groups) == 0 {
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		return
	}
	defer r.Close() // the child has its own copy
	cmd := exec.Command("/bin/sh", "-c", guardScript)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's signals must not reach it
	if cmd.Start() != nil {
		_ = w.Close()
		return
	}
	g.cmd, g.stdin = cmd, w
	for group := range g.groups {
		_, _ = fmt.Fprintf(w, "add %d\n", group)
	}
}

// reap is called with mu held.
func (g *Guard) reap() {
	_ = g.stdin.Close()
	_ = g.cmd.Process.Signal(syscall.SIGCONT) // one that somebody stopped would never end
	_ = g.cmd.Wait()                          // its exit status says nothing
	g.cmd, g.stdin = nil, nil
}

// Close ends the guard process. Groups that are still on its list are killed.
func (g *Guard) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.stdin != nil {
		g.reap()
	}
}
