// SPDX-License-Identifier: Apache-2.0

package guide

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/lint/readme"
)

// machineTime is how much processor time may pass from the scaffold to a packet, for two services.
const machineTime = 4 * time.Minute

// away lets the terminal write to /usr/local without consequences, and gives it a home.
const away = `mkdir -p /run/layer/upper /run/layer/work /run/home
mount -t overlay layer -o lowerdir=/usr/local,upperdir=/run/layer/upper,workdir=/run/layer/work /usr/local
export GOCACHE=$(go env GOCACHE) GOMODCACHE=$(go env GOMODCACHE) HOME=/run/home GOPROXY=off
export PIP_NO_INDEX=1 PIP_FIND_LINKS=`

// TestServicesAreWrittenWithInstalledFilesOnly executes docs/guide/write-a-service.md, as a reader would. Modules and
// packages of others come from the caches of the repository instead of the network.
func TestServicesAreWrittenWithInstalledFilesOnly(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/guide/write-a-service.md"))
	if err != nil {
		t.Fatal(err)
	}
	wheels, err := filepath.Abs(filepath.Join(root, ".cache/wheels"))
	if err == nil {
		_, err = os.Stat(wheels)
	}
	if err != nil {
		t.Fatalf("%v (run make python)", err)
	}
	dir := clone(t)
	term := open(t, dir)
	term.Must(away + wheels)
	var printed strings.Builder
	var before time.Duration
	for i, s := range steps(t, text) {
		switch s.kind {
		case "sh":
			printed.WriteString(term.Must(s.text))
		case "diff":
			term.Must("git apply <<'END OF PATCH'\n" + s.text + "END OF PATCH")
		case "console":
			console(t, term, s.show)
		}
		if i == 0 { // from here on the repository is not needed
			term.Must("mount -t tmpfs hidden " + dir)
			before = used(t, term)
		}
	}
	for _, part := range []string{"1 packets transmitted, 1 received", "polycubed accepts the service", "ok  \tpatchpanel"} {
		if !strings.Contains(printed.String(), part) {
			t.Errorf("%q is nowhere in what the commands print:\n%s", part, printed.String())
		}
	}
	spent := used(t, term) - before
	t.Logf("both services took %v of processor time", spent)
	if spent > machineTime {
		t.Errorf("both services took %v of processor time, the limit is %v", spent, machineTime)
	}
}

// console runs a command and compares what it prints.
func console(t *testing.T, term *terminal, e readme.Example) {
	t.Helper()
	out, exit := term.Run(e.Command)
	if exit != e.Exit {
		t.Errorf("line %d: %s: exit %d, the guide says %d:\n%s", e.Line, e.Command, exit, e.Exit, out)
	}
	if err := e.Match(out); err != nil {
		t.Error(err)
	}
}

// used is the processor time of the programs that the terminal has run.
func used(t *testing.T, term *terminal) (sum time.Duration) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(term.Must("LC_ALL=C times")), "\n") // the shell's own, and that of its children
	for word := range strings.FieldsSeq(lines[len(lines)-1]) {
		minutes, seconds, ok := strings.Cut(strings.TrimSuffix(word, "s"), "m")
		m, err := strconv.Atoi(minutes)
		s, errSeconds := strconv.ParseFloat(seconds, 64)
		if !ok || err != nil || errSeconds != nil {
			t.Fatalf("times prints %q", lines)
		}
		sum += time.Duration(m)*time.Minute + time.Duration(s*float64(time.Second))
	}
	return sum
}
