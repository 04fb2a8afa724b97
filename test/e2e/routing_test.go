// SPDX-License-Identifier: Apache-2.0

// A routing daemon in a cube's namespace talks to its neighbours by the cube's ports.

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

// birdConfig is an OSPF router on one interface, which announces a network behind it.
const birdConfig = `
log stderr all;
router id %s;
protocol device { scan time 1; }
protocol kernel { scan time 1; ipv4 { import none; export where source ~ [ RTS_OSPF, RTS_OSPF_IA, RTS_OSPF_EXT1, RTS_OSPF_EXT2 ]; }; }
protocol ospf v2 { ipv4 { import all; export none; }; area 0 {
	interface "%s" { type ptp; hello 1; dead 8; };
	stubnet %s;
}; }
`

// routes runs bird in the namespace of path until the test ends.
func routes(t *testing.T, path, id, port, network string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "bird.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, birdConfig, id, port, network), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("nsenter", "--net="+path, "bird", "-f", "-c", config, "-s", filepath.Join(dir, "ctl"), "-P", filepath.Join(dir, "pid"))
	said := &output.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
		if t.Failed() {
			t.Logf("bird %s said:\n%s", id, tail(said.String(), 20))
		}
	})
}

func TestARoutingDaemonInACubeLearnsRoutes(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bird"); err != nil {
		t.Skip("needs bird (bird2): the routing daemon that runs in the namespace")
	}
	d := shadowMachine(t).Start()
	one, two, in := d.responds()
	in.reaches("10.0.1.2")
	one.Run("ip", "addr", "add", "10.9.0.1/32", "dev", "lo")
	routes(t, one.Path(), "10.0.1.2", netns.Inner, "10.9.0.0/24")
	routes(t, "/run/netns/"+in.name, "10.0.1.1", "p1", "10.0.2.0/24")
	netns.Eventually(t, 3*patience, func() error {
		if table := in.Must("ip route"); !strings.Contains(table, "10.9.0.0/24 via 10.0.1.2 dev p1 proto bird") {
			return fmt.Errorf("the cube's namespace has learned no route to 10.9.0.0/24: %s", table)
		}
		if table := one.Run("ip", "route"); !strings.Contains(table, "10.0.2.0/24 via 10.0.1.1 dev eth0 proto bird") {
			return fmt.Errorf("the neighbour has learned no route to 10.0.2.0/24: %s", table)
		}
		return nil
	})
	in.Must("sysctl -q -w net.ipv4.ip_forward=1")
	reaches(t, two, "10.9.0.1") // through a route that only the protocol could announce
}
