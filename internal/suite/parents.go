package suite

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// parentAtStart is asked for as early as can be: a parent that dies before that
// is not missed.
var parentAtStart = os.Getppid()

// runners are the programs between a shell and this process. When one of them
// dies nobody waits for the run any more, also where the next one lives on: a
// killed gotestsum leaves go test behind, and a killed gaterun leaves both.
// What started them, such as a shell or a terminal, may end before the run.
var runners = []string{"go", "gotestsum", "gaterun"}

// parents are the processes that a run needs: its own parent, and above it a
// chain of runners as far as the system tells.
type parents struct {
	self  string // the parent's name, "" where it is not needed
	links []link
}

// link is a process and the runner that was its parent.
type link struct {
	pid, parent int
	name        string // the runner's
}

// findParents looks at the processes above this one. A parent that is no runner
// is needed too, for it may be another tool that runs tests; but not under
// nohup, which asks to outlive it.
func findParents() parents {
	var p parents
	_, name, ok := processOf(parentAtStart)
	if !ok {
		name = "go test"
	}
	if slices.Contains(runners, name) || !signal.Ignored(syscall.SIGHUP) {
		p.self = name
	}
	for pid := parentAtStart; ok && slices.Contains(runners, name); {
		var above int
		if above, _, ok = processOf(pid); !ok {
			break
		}
		child := pid
		pid = above
		if _, name, ok = processOf(pid); ok && slices.Contains(runners, name) {
			p.links = append(p.links, link{child, pid, name})
		}
	}
	return p
}

// gone names a process that has died, "" for none.
func (p parents) gone() string {
	if p.self != "" && os.Getppid() != parentAtStart {
		return p.self
	}
	for _, l := range p.links {
		if parent, _, ok := processOf(l.pid); !ok || parent != l.parent {
			return l.name
		}
	}
	return ""
}
