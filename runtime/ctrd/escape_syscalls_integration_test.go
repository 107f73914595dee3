//go:build integration

package ctrd_test

import (
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thawpool/thawpool/runtime/ctrd"
	"github.com/thawpool/thawpool/runtime/ctrd/ctrdtest"
)

var (
	//go:embed testdata/escape/syscalls.py
	syscallsCode string
	//go:embed testdata/escape/syscalls-amd64.txt
	keptAMD64 string
)

// writeCalls is for the list of another architecture, or of a profile that was changed on purpose. Each line that
// differs from the kept list wants to be read before it is kept.
var writeCalls = flag.String("write-syscalls", "", "write what the sandbox's filter says to every system call to this file")

// kept are the reviewed lists by architecture.
var kept = map[string]string{"amd64": keptAMD64}

const (
	lastCall = 511 // the kernel is at 471
	// oldCalls are in every libseccomp and kernel that thawpool is built with and runs on. A newer one may be refused where
	// the library does not know its name.
	oldCalls = 450
)

// arguments are calls whose verdict depends on an argument: its number, the argument's place, and the values tried.
var arguments = map[string][]any{
	"socket": {unix.SYS_SOCKET, 0, upTo(64)}, "clone": {unix.SYS_CLONE, 0, bits(7, 33)},
	"personality": {unix.SYS_PERSONALITY, 0, []int{0, 8, 0x20000, 0x40000, 0x400000, 0xffffffff}},
	"prlimit64":   {unix.SYS_PRLIMIT64, 1, upTo(16)}, "prlimit64 of": {unix.SYS_PRLIMIT64, 0, []int{0, 1}},
}

// A probe is what syscalls.py prints.
type probe struct {
	Calls     map[string]string // by number: allowed, or what it is refused with
	Tried     map[string]string // what the refused ones gave when they were really called
	Arguments map[string]string
	Foreign   map[string]string // 32-bit and x32 calls
}

// TestEverySystemCall compares the filter's verdict on each number there is, taken inside a sandbox, with the kept list.
func TestEverySystemCall(t *testing.T) {
	e, base := env(t)
	t.Cleanup(func() { e.RequireNone(t, base) })
	rt := e.Runtime(t, func(c *ctrd.Config) { c.Runtime = ctrd.RuntimeThawpool })
	found := probeCalls(t, rt, "syscalls", lastCall)
	if *writeCalls != "" {
		if err := os.WriteFile(*writeCalls, []byte(found.list(readList(t))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range found.differences(readList(t)) {
		t.Error(wrong)
	}
}

func probeCalls(t *testing.T, rt *ctrd.Runtime, id string, last int) (found probe) {
	t.Helper()
	decode(t, must(t, ctrdtest.Boot(t, rt, id), python("LAST", last)+python("ARGUMENTS", arguments)+syscallsCode), &found)
	return found
}

// An entry is a line of the kept list: number or call with argument, name, verdict.
type entry struct{ name, verdict string }

func readList(t *testing.T) map[string]entry {
	t.Helper()
	text, ok := kept[goruntime.GOARCH]
	if !ok {
		t.Fatalf("no list of system calls is kept for %s: make one with -write-syscalls and review it", goruntime.GOARCH)
	}
	list := map[string]entry{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") || len(fields) != 3 {
			continue
		}
		list[fields[0]] = entry{fields[1], fields[2]}
	}
	return list
}

// differences tells where a sandbox is not as the list says. Stricter is right where kernels and libraries differ.
func (p probe) differences(list map[string]entry) (wrong []string) {
	for number, verdict := range p.Calls {
		want, known := list[number]
		switch n, _ := strconv.Atoi(number); {
		case !known && verdict != "allowed", want.verdict == verdict:
		case want.verdict == "allowed" && verdict == "ENOSYS": // the kernel has none
		case want.verdict == "allowed" && verdict == "EPERM" && n > oldCalls: // the library knows none
		case want.verdict == "unfiltered" && verdict != "allowed" && verdict != "done":
		default:
			wrong = append(wrong, fmt.Sprintf("system call %s %s: %s, the list has %q", number, want.name, verdict, want.verdict))
		}
	}
	if len(p.Calls) != lastCall+1 {
		wrong = append(wrong, fmt.Sprintf("%d system calls were looked at", len(p.Calls)))
	}
	for number, outcome := range p.Tried {
		if verdict := p.Calls[number]; outcome != verdict {
			wrong = append(wrong, fmt.Sprintf("system call %s: %s when it is made, though the filter says %s", number, outcome, verdict))
		}
	}
	for call, verdict := range p.Arguments {
		if want := list[call]; want.verdict != verdict {
			wrong = append(wrong, fmt.Sprintf("%s: %s, the list has %q", call, verdict, want.verdict))
		}
	}
	for call, outcome := range p.Foreign {
		if outcome != "SIGSYS" && (outcome != "SIGSEGV" || !strings.HasPrefix(call, "i386")) { // a kernel without 32-bit calls
			wrong = append(wrong, fmt.Sprintf("%s call: %s, and it should have ended the process", call, outcome))
		}
	}
	if goruntime.GOARCH == "amd64" && len(p.Foreign) < 100 {
		wrong = append(wrong, fmt.Sprintf("%d foreign calls were made", len(p.Foreign)))
	}
	return wrong
}

// list is the probe in the form of the kept list, with the names of the one before.
func (p probe) list(before map[string]entry) string {
	var b strings.Builder
	b.WriteString("# What a sandbox's filter says to each system call: number, name, verdict; then calls whose verdict depends on an argument.\n" +
		"# unfiltered: the kernel lets it past every filter and ends who makes it without being traced.\n")
	for n := range lastCall + 1 {
		number := strconv.Itoa(n)
		old, known := before[number]
		verdict := p.Calls[number]
		if !known && verdict != "allowed" {
			continue
		}
		if old.verdict == "unfiltered" {
			verdict = old.verdict
		}
		fmt.Fprintf(&b, "%d\t%s\t%s\n", n, old.name, verdict)
	}
	for _, call := range slices.Sorted(maps.Keys(p.Arguments)) {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", call, before[call].name, p.Arguments[call])
	}
	return b.String()
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func bits(from, to int) (all []int) {
	for i := from; i < to; i++ {
		all = append(all, 1<<i)
	}
	return all
}
