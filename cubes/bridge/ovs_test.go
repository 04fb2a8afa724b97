// SPDX-License-Identifier: Apache-2.0

package bridge

// Open vSwitch with its datapath in user space, private to a test.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pace"
)

// ovs is a database and a switch that run in a namespace.
type ovs struct {
	ns  *netns.Namespace
	dir string
	t   testing.TB
}

// startOVS starts both, with the bridge br0. They end with the test, which is skipped without Open vSwitch.
func startOVS(t testing.TB, ns *netns.Namespace) *ovs {
	t.Helper()
	for _, tool := range []string{"ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-appctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs Open vSwitch: %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "ovs") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	o := &ovs{ns: ns, dir: dir, t: t}
	o.run("ovsdb-tool", "create", o.file("conf.db"), "/usr/share/openvswitch/vswitch.ovsschema")
	o.start("ovsdb-server", o.file("conf.db"), "--remote=punix:"+o.file("db.sock"), "--unixctl="+o.file("db.ctl"))
	netns.Eventually(t, pace.Stretch(20*time.Second), func() error { _, err := os.Stat(o.file("db.sock")); return err })
	o.vsctl("--no-wait", "init")
	o.start("ovs-vswitchd", "unix:"+o.file("db.sock"), "--unixctl="+o.file("switch.ctl"), "--disable-system")
	o.vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
	return o
}

func (o *ovs) file(name string) string { return filepath.Join(o.dir, name) }

func (o *ovs) command(name string, args ...string) *exec.Cmd {
	cmd := o.ns.Command(name, args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+o.dir, "OVS_LOGDIR="+o.dir, "OVS_DBDIR="+o.dir, "OVS_SYSCONFDIR="+o.dir)
	return cmd
}

func (o *ovs) run(name string, args ...string) string {
	o.t.Helper()
	out, err := o.command(name, args...).CombinedOutput()
	if err != nil {
		o.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// start runs a daemon until the test ends.
func (o *ovs) start(name string, args ...string) {
	o.t.Helper()
	var log output.Buffer
	cmd := o.command(name, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = cmd.Wait()
		if o.t.Failed() {
			o.t.Logf("%s: %s", name, log.String())
		}
	})
}

// vsctl changes the switch and waits until it has.
func (o *ovs) vsctl(args ...string) string {
	o.t.Helper()
	return o.run("ovs-vsctl", append([]string{"--timeout=20", "--retry", "--db=unix:" + o.file("db.sock")}, args...)...)
}

// keepNoFlows makes the switch decide on each frame separately, so that no cached flow is used. It takes half a second
// to take effect.
func (o *ovs) keepNoFlows() {
	o.t.Helper()
	o.vsctl("set", "Open_vSwitch", ".", "other_config:flow-limit=0")
	netns.Eventually(o.t, patience, func() error {
		if got := o.run("ovs-appctl", "--target="+o.file("switch.ctl"), "upcall/show"); !strings.Contains(got, "(current 0)") || !strings.Contains(got, "(limit 0)") {
			return fmt.Errorf("it keeps flows: %s", got)
		}
		return nil
	})
}

// addPort makes a device a port, configured like one of ours.
func (o *ovs) addPort(dev string, p *Port) {
	o.t.Helper()
	args := []string{"add-port", "br0", dev}
	switch {
	case p.Mode == ModeAccess:
		args = append(args, fmt.Sprint("tag=", p.Access.VLANID), "vlan_mode=access")
	default:
		var list []string
		for _, vlan := range p.vlans() {
			list = append(list, fmt.Sprint(vlan))
		}
		args = append(args, "trunks="+strings.Join(list, ","))
		if native, ok := p.untaggedVLAN(); ok {
			args = append(args, fmt.Sprint("tag=", native), "vlan_mode=native-untagged")
		} else {
			args = append(args, "vlan_mode=trunk")
		}
	}
	o.vsctl(args...)
}
