// SPDX-License-Identifier: Apache-2.0

// The processes in a namespace. Each test checks this when its namespaces are removed, so it must be cheap.

package netns

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// strangers are the processes that ran before the first test: none of them moves into a namespace created here. Looking
// up the namespace of a process costs the kernel a hundred times more than listing its number.
var strangers = struct {
	sync.Mutex
	pids map[string]bool
}{pids: asSet(running())}

// running lists the numbers of all processes.
func running() []string {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // no /proc, and nothing else works either
	var pids []string
	for _, name := range names {
		if _, err := strconv.Atoi(name); err == nil {
			pids = append(pids, name)
		}
	}
	return pids
}

func asSet(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// candidates lists the processes that may be in a namespace made here. A stranger that has ended is forgotten, so that
// the next process with its number is none.
func candidates() []string {
	strangers.Lock()
	defer strangers.Unlock()
	still := make(map[string]bool, len(strangers.pids))
	var found []string
	for _, pid := range running() {
		if strangers.pids[pid] {
			still[pid] = true
		} else if pid != strconv.Itoa(os.Getpid()) {
			found = append(found, pid)
		}
	}
	strangers.pids = still
	return found
}

// processes lists the processes in the namespace, without this one, whose first thread may be there temporarily.
func (n *Namespace) processes() []string {
	own, err := os.Stat(n.Path())
	if err != nil {
		return nil
	}
	var found []string
	for _, pid := range candidates() {
		proc := filepath.Join("/proc", pid)
		st, err := os.Stat(filepath.Join(proc, "ns/net"))
		if err != nil || !os.SameFile(own, st) { // err: the process has ended
			continue
		}
		comm, _ := os.ReadFile(filepath.Join(proc, "comm"))
		found = append(found, fmt.Sprintf("%s (%s)", pid, strings.TrimSpace(string(comm))))
	}
	return found
}

// Interruptible makes SIGINT end the processes that tests start even if it is ignored, as by a shell without job
// control for background processes. CheckLeaks calls it.
func Interruptible() {
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt) // a signal that is caught here has its default action in a child
	}
}
