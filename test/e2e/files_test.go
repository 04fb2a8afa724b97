// SPDX-License-Identifier: Apache-2.0

// The configuration as a file: out of one machine, into another, back in time, and through a damaged disk.

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// everything is a configuration with all features: actions' effects, chains on ports and netdevs in an order different
// from that of names or creation, a shadow cube with span, XDP and TC.
const everything = `
- {name: th3, service-name: transparenthelloworld, ingress-action: DROP}
- {name: th1, service-name: transparenthelloworld}
- {name: th2, service-name: transparenthelloworld}
---
- name: br1
  service-name: simplebridge
  loglevel: DEBUG
  fdb:
    aging-time: 60
    entry: [{address: "02:00:00:00:00:0a", port: p1}]
  ports:
  - {name: p1, peer: veth1, tcubes: [th2, th1]}
  - {name: up, peer: "fw1:left"}
- name: fw1
  service-name: simpleforwarder
  ports: [{name: left, peer: "br1:up"}, {name: right, peer: veth2}]
  actions: [{inport: left, action: FORWARD, outport: right}, {inport: right, action: FORWARD, outport: left}]
- {name: x1, service-name: simplebridge, type: XDP_SKB, ports: [{name: p1, peer: veth3}]}
- {name: s1, service-name: simplebridge, shadow: true, span: true, ports: [{name: p1}]}
---
cubes: []
netdevs:
- {name: veth4, tcubes: [th4, th3]}
---
{name: th4, service-name: transparenthelloworld}
`

// filesMachine is a daemon on a machine with four hosts.
func filesMachine(t *testing.T) (*daemon, []*netns.Node) {
	t.Helper()
	m := shadowMachine(t)
	m.own = false
	var hosts []*netns.Node
	for i := range 4 {
		hosts = append(hosts, m.lab.Host(fmt.Sprintf("veth%d", i+1), fmt.Sprintf("10.0.0.%d/24", i+1)))
	}
	return m.Start(), hosts
}

// applyText applies a document on standard input.
func (d *daemon) applyText(doc string, args ...string) result {
	d.t.Helper()
	return d.CLIWith(doc, append([]string{"apply", "-f", "-"}, args...)...)
}

func TestTheWholeConfigurationGoesThroughAFile(t *testing.T) {
	t.Parallel()
	d, hosts := filesMachine(t)
	if r := d.applyText(everything, "--dry-run", "--detailed-exitcode"); r.code != 3 || d.Do("export") != "cubes: []\n" {
		t.Fatalf("dry run: %s", r)
	}
	if names := d.namespaces(); len(names) > 0 {
		t.Errorf("a dry run made the namespaces %v", names)
	}
	if r := d.applyText(everything); r.code != 0 || !strings.Contains(r.stdout, "8 cubes added, 1 netdev changed") {
		t.Fatalf("%s", r)
	}
	reaches(t, hosts[0], "10.0.0.2")
	before := d.Do("export")
	for _, want := range []string{"address: \"02:00:00:00:00:0a\"", "aging-time: 60", "outport: right", "span: true", "type: XDP_SKB",
		"        tcubes:\n          - th2\n          - th1\n", "    tcubes:\n      - th4\n      - th3\n"} {
		if !strings.Contains(before, want) {
			t.Errorf("the export lacks %q:\n%s", want, before)
		}
	}
	for _, word := range []string{"uuid", "status", "parent:", "learned"} {
		if strings.Contains(before, word) {
			t.Errorf("the export has %q, which is no configuration:\n%s", word, before)
		}
	}
	if r := d.applyText(before, "--prune", "--detailed-exitcode"); r.code != 0 || !strings.HasPrefix(r.stdout, "no change") {
		t.Errorf("its own export: %s", r)
	}
	d.Stop()
	d = d.Start()
	if after := d.Do("export"); after != before {
		t.Errorf("after a restart it exports\n%s\nwas\n%s", after, before)
	}
	d.Kill9()
	d = d.Start()
	if after := d.Do("export"); after != before {
		t.Errorf("after a kill it exports\n%s\nwas\n%s", after, before)
	}
	reaches(t, hosts[0], "10.0.0.2")
	other, others := filesMachine(t)
	if r := other.applyText(before); r.code != 0 {
		t.Fatalf("on another machine: %s", r)
	}
	if is := other.Do("export"); is != before {
		t.Errorf("another machine exports\n%s\nwas\n%s", is, before)
	}
	reaches(t, others[0], "10.0.0.2")
}

func TestARefusedFileLeavesTrafficAlone(t *testing.T) {
	t.Parallel()
	d, hosts := filesMachine(t)
	if r := d.applyText(everything); r.code != 0 {
		t.Fatalf("%s", r)
	}
	before, revision := d.Do("export"), d.Do("history -n 1 -json")
	for name, doc := range map[string]string{
		"a netdev that is not there": "[{name: br1, service-name: simplebridge, ports: [{name: p1, peer: nodev0}]}, {name: new, service-name: simplebridge}]",
		"a netdev without Ethernet":  "[{name: new, service-name: simplebridge, ports: [{name: p1, peer: lo}]}]",
		// The data plane prepares, and refuses: TC and XDP on one path.
		"TC and XDP on one path": "[{name: x1, service-name: simplebridge, type: XDP_SKB, ports: [{name: p1, peer: veth3, tcubes: [th1]}]}]",
		"too many ports":         "[{name: new, service-name: simplebridge, ports: [" + strings.TrimSuffix(manyPorts(600), ",") + "]}]",
	} {
		for _, dry := range []string{"--yes", "--dry-run"} {
			if r := d.applyText(doc, dry); r.code != 2 || !strings.Contains(r.stderr, "cubes[0]") && !strings.Contains(r.stderr, "TC") {
				t.Errorf("%s: %s", name, r)
			}
		}
	}
	if is := d.Do("export"); is != before || d.Do("history -n 1 -json") != revision {
		t.Errorf("refused files left\n%s\nwas\n%s", is, before)
	}
	reaches(t, hosts[0], "10.0.0.2")
}

func manyPorts(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("{name: p" + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "},")
	}
	return b.String()
}

func TestTheWayBackIsWholeAndSurvivesDamage(t *testing.T) {
	t.Parallel()
	d, hosts := filesMachine(t)
	if r := d.applyText(everything); r.code != 0 {
		t.Fatalf("%s", r)
	}
	first := d.Do("export")
	d.Do("br1 set loglevel=INFO")
	d.Do("br1 fdb entry del 02:00:00:00:00:0a")
	d.Do("detach th4 veth4")
	d.Do("del fw1")
	d.Kill9()
	d = d.Start()
	if is := d.Do("export -r 1"); is != first {
		t.Errorf("revision 1 is\n%s\nwas\n%s", is, first)
	}
	if shown := d.Do("history 5"); !strings.Contains(shown, "- fw1 (simpleforwarder)") || !strings.Contains(shown, "who: root") {
		t.Errorf("revision 5 is shown as\n%s", shown)
	}
	if r := d.CLI("rollback", "1", "--detailed-exitcode"); r.code != 3 {
		t.Fatalf("%s", r)
	}
	if is := d.Do("export"); is != first {
		t.Errorf("a rollback made\n%s\nwas\n%s", is, first)
	}
	reaches(t, hosts[0], "10.0.0.2")
	if list := d.Do("history"); !strings.Contains(list, "rollback to revision 1 (+fw1") {
		t.Errorf("the history is\n%s", list)
	}
	d.Stop()
	journals, err := filepath.Glob(filepath.Join(d.dir, "state", "store.d", "journal-*"))
	if err != nil || len(journals) != 1 {
		t.Fatalf("journals %v, %v", journals, err)
	}
	info, err := os.Stat(journals[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(journals[0], info.Size()-3); err != nil {
		t.Fatal(err)
	}
	d = d.Start()
	d.said("journal damaged at byte")
	for _, line := range []string{"history", "status"} {
		if shown := d.Do(line); !strings.Contains(shown, "journal damaged at byte") {
			t.Errorf("%s does not tell of the damage:\n%s", line, shown)
		}
	}
	d.lab.Run("ip", "link", "del", "veth2")
	before := d.Do("export")
	if status, text, err := d.Request(http.MethodPost, "/rollback", `{"revision":1}`); err != nil || status != http.StatusBadRequest || !strings.Contains(text, "veth2") {
		t.Errorf("a rollback to a netdev that is gone: %d %s, %v", status, text, err)
	}
	if is := d.Do("export"); is != before {
		t.Errorf("a refused rollback left\n%s\nwas\n%s", is, before)
	}
	d.Do("del br1")
	if r := d.CLI("rollback", "5"); r.code != 0 || d.Do("export") != before {
		t.Errorf("revision 5: %s", r)
	}
}

func TestExamplesAreApplied(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			d, _ := filesMachine(t)
			for _, want := range []int{3, 0} {
				if r := d.CLI("apply", "-f", path, "--detailed-exitcode"); r.code != want {
					t.Errorf("%s", r)
				}
			}
			d.Do("rollback 0")
			if left := d.Do("export"); left != "cubes: []\n" {
				t.Errorf("it leaves %s", left)
			}
		})
	}
}
