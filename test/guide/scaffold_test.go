// SPDX-License-Identifier: Apache-2.0

package guide

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/lint"
)

// hosts are two network namespaces, each with a wire to the machine.
const hosts = `for i in 1 2; do
    ip netns add host$i
    ip link add veth$i type veth peer name eth0 netns host$i
    ip link set veth$i up
    ip -n host$i link set eth0 up
    ip -n host$i addr add 10.0.0.$i/24 dev eth0
done
`

// daemon starts a daemon as installed.
const daemon = `export PATH=$PWD/bin:$PATH
polycubed >polycubed.log 2>&1 &
until polycubectl cubes show >/dev/null 2>&1; do sleep 0.1; done
`

// TestNewCubesWorkAtOnce creates a cube of each kind and does what its author would do: build, test, lint, run.
func TestNewCubesWorkAtOnce(t *testing.T) {
	t.Parallel()
	dir := clone(t)
	before := tree(t, dir)
	term := open(t, dir)
	term.Must("make new-cube NAME=patchpanel\nmake new-cube NAME=sizeguard TRANSPARENT=1")
	term.Must("make new-vnf NAME=ahead MODE=proactive\nmake new-vnf NAME=asking MODE=reactive\nmake new-vnf NAME=early MODE=offloading")
	if out, exit := term.Run("make new-cube NAME=patchpanel"); exit == 0 || !strings.Contains(out, "cubes/patchpanel already exists") {
		t.Errorf("a name that is taken: exit %d\n%s", exit, out)
	}
	if out, exit := term.Run("make new-vnf NAME=other MODE=active"); exit == 0 || !strings.Contains(out, "MODE=proactive, MODE=reactive, MODE=offloading") {
		t.Errorf("a mode that is none: exit %d\n%s", exit, out)
	}
	checkSources(t, term, before, tree(t, dir))
	if out := term.Must("make\ngo test -v ./cubes/patchpanel ./cubes/sizeguard ./cubes/ahead ./cubes/asking ./cubes/early"); strings.Contains(out, "--- SKIP") {
		t.Errorf("a test of the new cubes was skipped:\n%s", out)
	}
	term.Must(daemon + hosts + `polycubectl patchpanel add p
polycubectl p ports add p1 peer=veth1
polycubectl p ports add p2 peer=veth2
polycubectl sizeguard add s
polycubectl attach s p:p1
ip netns exec host1 ping -c 1 -s 1000 10.0.0.2
polycubectl s set max-length=200`)
	if out, exit := term.Run("ip netns exec host1 ping -c 1 -W 1 -s 1000 10.0.0.2"); exit != 1 {
		t.Errorf("ping of 1000 bytes at a limit of 200: exit %d\n%s", exit, out)
	}
	term.Must("ip netns exec host1 ping -c 1 -s 100 10.0.0.2")
	term.Must("polycubectl sizeguard del s\npolycubectl patchpanel del p\n" + listeners)
	for _, use := range functions {
		term.Must(use)
	}
}

// listeners are two programs of the machine, which print what host1 says to their ports.
const listeners = `ip addr add 10.0.0.254/24 dev veth1
for port in 53 5000; do
    python3 -uc 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.0.0.254", int(sys.argv[1])))
while True:
    print(s.recv(99).decode())' $port >heard$port &
done
# say PORT TEXT
say() { ip netns exec host1 bash -c "echo '$2' >/dev/udp/10.0.0.254/$1"; }
# arrives PORT TEXT says it until it is heard.
arrives() {
    for _ in {1..300}; do
        say "$1" "$2"
        ! grep "$2" "heard$1" || return 0
        sleep 0.1
    done
    polycubectl drops
    return 1
}
# once CUBE REASON PORT TEXT says it, and waits until the cube has dropped it.
once() {
    say "$3" "$4"
    for _ in {1..300}; do
        ! polycubectl drops | grep -E "^$1 +$2 +1" || return 0
        sleep 0.1
    done
    return 1
}`

// functions use a hybrid function of each mode: packets that its fast path decides, and packets of its slow path.
var functions = []string{
	`polycubectl ahead add a signature=attack
polycubectl attach a veth1
arrives 5000 'text without a rule'
once a refused 5000 'an attack'
polycubectl a rule add 5000 drop=true
once a rule 5000 'text with a rule'
polycubectl a rule del 5000
arrives 5000 'text whose rule is gone'
[ -z "$(grep -e attack -e 'with a rule' heard5000)" ]
polycubectl ahead del a`,
	`polycubectl asking add b
polycubectl attach b veth1
arrives 5000 'text of an accepted flow'
polycubectl b refused add 5000
once b refused 5000 'text of a refused flow'
polycubectl b refused del 5000
arrives 5000 'text of a flow that is accepted again'
[ -z "$(grep 'a refused flow' heard5000)" ]
polycubectl asking del b`,
	`echo 'access-control: 10.0.0.0/24 refuse' >unbound.conf
polycubectl early add c file=$PWD/unbound.conf
polycubectl c server add 10.0.0.254
polycubectl attach c veth1
arrives 53 'a query that the server refuses'
polycubectl early del c
echo 'access-control: 10.0.0.0/24 deny' >unbound.conf
polycubectl early add c file=$PWD/unbound.conf
polycubectl c server add 10.0.0.254
polycubectl attach c veth1
arrives 5000 'text that is no query'
once c denied 53 'a query that the server denies'
echo 'access-control: 10.0.0.1 allow' >>unbound.conf
arrives 53 'a query that the server answers'
[ -z "$(grep 'server denies' heard53)" ]
polycubectl early del c`,
}

// TestTimedThePacketsOfANewCubeFlowSoon: from the scaffold to the first packet through it takes at most twice the time
// of a processor that a build takes after a change of one cube. How long that is depends on the machine.
func TestTimedThePacketsOfANewCubeFlowSoon(t *testing.T) {
	for _, tt := range []struct{ name, options, use string }{
		{"patchpanel", "", `polycubectl patchpanel add p
polycubectl p ports add p1 peer=veth1
polycubectl p ports add p2 peer=veth2
`},
		{"sizeguard", "TRANSPARENT=1", `polycubectl sizeguard add s
polycubectl simplebridge add br1
polycubectl br1 ports add p1 peer=veth1
polycubectl br1 ports add p2 peer=veth2
polycubectl attach s br1:p1
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term := open(t, clone(t))
			term.Must("make")
			before := spent(t, term)
			term.Must("echo >> cubes/firewall/firewall.bpf.c\necho 'var Changed = 1' >> cubes/firewall/firewall.go\nmake")
			change := spent(t, term) - before
			before += change
			term.Must("make new-cube NAME=" + tt.name + " " + tt.options + "\nmake\n" + daemon + hosts + tt.use + "ip netns exec host1 ping -c 1 10.0.0.2")
			took := spent(t, term) - before
			t.Logf("%s from the scaffold to the first packet; a build after a change took %s", took, change)
			if took < time.Second/10 || took > 2*change {
				t.Errorf("%s from the scaffold to the first packet; a build after a change took %s", took, change)
			}
		})
	}
}

// spent is the time of a processor of all commands of a terminal that have ended.
func spent(t *testing.T, term *terminal) time.Duration {
	t.Helper()
	var minutes, more int
	var user, system float64
	printed := term.Must("times") // of the shell, then of its commands
	_, commands, _ := strings.Cut(strings.TrimSpace(printed), "\n")
	if _, err := fmt.Sscanf(commands, "%dm%fs %dm%fs", &minutes, &user, &more, &system); err != nil {
		t.Fatalf("the times of the commands are %q: %v", printed, err)
	}
	return time.Duration((float64(60*(minutes+more)) + user + system) * float64(time.Second))
}

// newCubes are those that the test creates.
var newCubes = []string{"cubes/patchpanel/", "cubes/sizeguard/", "cubes/ahead/", "cubes/asking/", "cubes/early/"}

// checkSources checks the created files with the house rules and the tools that `make lint` runs.
func checkSources(t *testing.T, term *terminal, before, after lint.Tree) {
	t.Helper()
	keepRules(t, after, append(slices.Clone(newCubes), "cubes/all/")...)
	made := 0
	for name, text := range after {
		switch old, ok := before[name]; {
		case slices.ContainsFunc(newCubes, func(dir string) bool { return strings.HasPrefix(name, dir) }):
			made++
		case !ok || string(old) != string(text):
			if name != "cubes/all/all.go" {
				t.Errorf("%s was changed", name)
			}
		}
	}
	if made != 31 {
		t.Errorf("%d files were made, want 31", made)
	}
	pyang, err := filepath.Abs(filepath.Join(root, ".cache/pyang/bin/pyang"))
	if err != nil {
		t.Fatal(err)
	}
	const files = "cubes/{patchpanel,sizeguard,ahead,asking,early}/"
	term.Must(`[ -z "$(gofmt -s -l cubes)" ]
clang-format --dry-run --Werror ` + files + `*.c
for model in ` + files + `*.yang; do
    yanglint -p yang $model
    if [ -x ` + pyang + ` ]; then
        [ -z "$(` + pyang + ` -W none -p yang --lint $model 2>&1 | grep -v -e '"contact"' -e '"reference"')" ]
    fi
done`)
}

// keepRules checks the files below some folders with the house rules.
func keepRules(t *testing.T, files lint.Tree, folders ...string) {
	t.Helper()
	for _, rule := range lint.Rules() {
		for _, f := range rule.Check(files) {
			if slices.ContainsFunc(folders, func(dir string) bool { return strings.HasPrefix(f.Path+"/", dir) }) {
				t.Errorf("%s: %v", rule.Name, f)
			}
		}
	}
}
