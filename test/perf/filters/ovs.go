// SPDX-License-Identifier: Apache-2.0

package filters

// Open vSwitch in user space, with AF_XDP ports and a polling thread on CPU 1.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
	"github.com/polycube/polycube/test/rulesets"
)

const (
	vswitch     = "/usr/lib/openvswitch-switch/ovs-vswitchd"
	vswitchText = "Open vSwitch forwards by itself, so here everything forwards without the kernel's stack, and *net* is minus the " +
		"generator and the first veth alone. Ours is a `firewall` on a port of a `simpleforwarder` at XDP. Open vSwitch runs in user " +
		"space with AF_XDP ports, and its polling thread on CPU 1 is kept busy: its CPU time per packet that arrives is added to " +
		"that of the generator's side per packet sent. It caches the decision for each flow, and is measured after the others, as " +
		"it keeps a CPU busy even without packets."
	ovs      = "Open vSwitch, AF_XDP"
	ovsPlain = "Open vSwitch, AF_XDP, no rules"
	bothXDP  = "simpleforwarder + firewall, XDP"
	plainXDP = "simpleforwarder, XDP"
)

// forwarder forwards between the netdevs; with rules, a firewall is on the port where packets come in.
func forwarder(typ cube.Type, rules []rulesets.Rule) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
		d, err := contest.DaemonAt(rig, b, w)
		if err != nil {
			return err
		}
		type object map[string]any
		err = contest.Post(d, "/simpleforwarder/f1", object{
			"type": typ, "ports": []object{{"name": "left", "peer": lab.In}, {"name": "right", "peer": lab.Out}},
			"actions": []object{{"inport": "left", "action": "FORWARD", "outport": "right"}},
		})
		if err != nil || rules == nil {
			return errors.Join(err, d.Inlined("f1"))
		}
		return errors.Join(
			contest.Post(d, "/firewall/c1", firewallConf(typ, false, ourRules(rules))),
			contest.Post(d, "/attach", object{"cube": "c1", "port": "f1:left"}), d.Inlined("f1", "c1"),
		)
	}
}

// openFlow are the rules as flows.
func openFlow(rules []rulesets.Rule) string {
	if rules == nil {
		return "in_port=" + lab.In + ",actions=output:" + lab.Out + "\n"
	}
	var b strings.Builder
	b.WriteString("priority=0,actions=drop\n")
	for _, r := range rules {
		match := "priority=10,in_port=" + lab.In + ",ip"
		if r.Protocol != nil {
			match = "priority=10,in_port=" + lab.In + "," + protocolName(*r.Protocol)
		}
		for field, p := range map[string]netip.Prefix{"nw_src": prefix(r.Src), "nw_dst": prefix(r.Dst)} {
			if p.Bits() > 0 {
				match += fmt.Sprintf(",%s=%s", field, p)
			}
		}
		for _, s := range r.SrcPort.Blocks() {
			for _, d := range r.DstPort.Blocks() {
				fmt.Fprintf(&b, "%s%s%s,actions=output:%s\n", match, portField("tp_src", s), portField("tp_dst", d), lab.Out)
			}
		}
	}
	return b.String()
}

// portField is a condition on a block of ports; "" for all of them.
func portField(field string, b rulesets.Block) string {
	if b.Mask == 0 {
		return ""
	}
	return fmt.Sprintf(",%s=%#x/%#x", field, b.First, b.Mask)
}

// openVSwitch starts one between the netdevs, and returns its process.
func openVSwitch(rig *lab.Rig, w *lab.Filtered, flows string) (pid int, err error) {
	dir := rig.TempDir()
	// Its AF_XDP library makes this folder for pins, and leaves it. It stays if it is of others, who have pins there.
	rig.Cleanup(func() { _ = os.Remove("/sys/fs/bpf/xdp") })
	env := append(os.Environ(), "OVS_RUNDIR="+dir, "OVS_LOGDIR="+dir, "OVS_DBDIR="+dir)
	socket := "unix:" + filepath.Join(dir, "db.sock")
	run := func(input, name string, args ...string) error {
		cmd := w.Machine.Command(name, args...)
		cmd.Env = env
		return contest.Fed(cmd, input)
	}
	start := func(name string, args ...string) (*exec.Cmd, error) {
		cmd := w.Machine.Command(name, args...)
		cmd.Env = env
		err := cmd.Start()
		if err == nil {
			rig.Cleanup(func() {
				_ = cmd.Process.Kill() // it may have ended
				_ = cmd.Wait()
			})
		}
		return cmd, err
	}
	db := filepath.Join(dir, "conf.db")
	if err := run("", "ovsdb-tool", "create", db, "/usr/share/openvswitch/vswitch.ovsschema"); err != nil {
		return 0, err
	}
	if _, err := start("ovsdb-server", db, "--remote=p"+socket, "--log-file="+filepath.Join(dir, "db.log")); err != nil {
		return 0, err
	}
	control := func(args ...string) error {
		return run("", "ovs-vsctl", append([]string{"--db=" + socket, "--retry", "--timeout=20"}, args...)...)
	}
	if err := control("--no-wait", "init"); err != nil {
		return 0, err
	}
	if err := control("--no-wait", "set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x2", "other_config:emc-insert-inv-prob=1"); err != nil {
		return 0, err
	}
	cmd, err := start("taskset", "-c", "1", vswitch, socket, "--log-file="+filepath.Join(dir, "vs.log"))
	if err != nil {
		return 0, err
	}
	bridge := []string{"add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "fail_mode=secure"}
	for _, dev := range []string{lab.In, lab.Out} {
		bridge = append(bridge, "--", "add-port", "br0", dev, "--", "set", "interface", dev, "type=afxdp", "options:xdp-mode=best-effort", "options:n_rxq=1")
	}
	if err := control(bridge...); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, run(flows, "ovs-ofctl", "add-flows", "unix:"+filepath.Join(dir, "br0.mgmt"), "-")
}

// switched is what forwards by itself.
type switched struct {
	name   string
	stream *lab.Stream
	pid    int // of the process that forwards, or 0
	drops  bool
}

// sample is the CPU time of a packet.
func (s *switched) sample() (float64, error) {
	p, err := s.stream.Through(1<<16, s.pid)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	if s.drops != (p.Received == 0) || s.pid == 0 && !s.drops && p.Received < p.Sent {
		return 0, fmt.Errorf("%s: of %d frames %d arrive: %w", s.name, p.Sent, p.Received, contest.ErrLost)
	}
	ns := p.PerFrame()
	if s.pid != 0 {
		ns += float64(p.Process) / float64(p.Received)
	}
	return ns, nil
}

// newSwitched sets one up; the packets that match no rule must not arrive.
func newSwitched(rig *lab.Rig, b *Bench, name string, rs *ruled) (*switched, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	if err := w.Sinks(rig); err != nil {
		return nil, err
	}
	s := &switched{name: name, drops: name == contest.Generator}
	switch name {
	case contest.Generator:
		err = w.DiscardFrom(rig, netip.PrefixFrom(netip.IPv4Unspecified(), 0))
	case plainXDP:
		err = forwarder(cube.TypeXDPDRV, nil)(rig, b, w)
	case bothXDP:
		err = forwarder(cube.TypeXDPDRV, rs.rules)(rig, b, w)
	case ovsPlain:
		s.pid, err = openVSwitch(rig, w, openFlow(nil))
	case ovs:
		s.pid, err = openVSwitch(rig, w, openFlow(rs.rules))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s.stream, err = w.Replay(rs.accepted); err != nil {
		return nil, err
	}
	if err := s.forwards(); err != nil {
		return nil, err
	}
	if name == bothXDP || name == ovs {
		if s.stream, err = w.Replay(rs.others); err != nil {
			return nil, err
		}
		if p, err := s.stream.Send(len(rs.others)); err != nil || p.Received > 0 {
			return nil, fmt.Errorf("%s: of %d frames that no rule accepts %d arrive: %w", name, p.Sent, p.Received, errors.Join(err, contest.ErrLost))
		}
		if s.stream, err = w.Replay(rs.accepted); err != nil {
			return nil, err
		}
	}
	for range 3 { // until the decisions are cached
		if _, err := s.sample(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// forwards waits until it does.
func (s *switched) forwards() error {
	const patience = 10 * time.Second
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		p, err := s.stream.Send(64)
		if err != nil || s.drops || p.Received == p.Sent {
			return err
		}
		if time.Since(begin) > patience {
			return fmt.Errorf("%s: of %d frames %d arrive: %w", s.name, p.Sent, p.Received, contest.ErrLost)
		}
	}
}

// againstSwitch compares the firewall with Open vSwitch, with the rules of a shape.
func againstSwitch(ctx context.Context, b *Bench, out *Result, shape string, rs *ruled) error {
	all := []string{contest.Generator, plainXDP, bothXDP}
	_, missing := os.Stat(vswitch)
	if missing == nil {
		all = append(all, ovsPlain, ovs)
	}
	f, err := switchedTimes(ctx, b, all, rs)
	if err != nil {
		return err
	}
	f[none] = f[contest.Generator]
	t := &report.Table{Title: "Forwarding and filtering, 1,000 rules, " + shape, Columns: append(contest.Columns(bothXDP), "minus the same without rules")}
	for _, name := range all {
		rules := ""
		if plain := map[string]string{bothXDP: plainXDP, ovs: ovsPlain}[name]; plain != "" {
			rules = fmt.Sprintf("%.0f", f[name].Median()-f[plain].Median())
		}
		t.Add(name, f[name].Spread(0), f.Net(name).Spread(0), fmt.Sprintf("%.2f", f.Ratio(name, bothXDP)), rules)
	}
	if missing == nil {
		out.Checks = append(out.Checks, report.AtLeast(
			fmt.Sprintf("%s against %s, 1,000 generated rules (%s), without the generator", bothXDP, ovs, shape), "%.2f ×", f.Ratio(ovs, bothXDP), 1.4))
	} else {
		t.Notes = append(t.Notes, "Open vSwitch is not installed here, and was not measured.")
	}
	out.Tables = append(out.Tables, t)
	return nil
}

// switchedTimes measures ours in turns, and then each Open vSwitch: it keeps a CPU busy even without packets.
func switchedTimes(ctx context.Context, b *Bench, names []string, rs *ruled) (contest.Figures, error) {
	f := contest.Figures{}
	rounds := b.Rounds(5, 3)
	together := func(names ...string) error {
		return lab.With(ctx, func(rig *lab.Rig) error {
			var all []*switched
			for _, name := range names {
				s, err := newSwitched(rig, b, name, rs)
				if err != nil {
					return err
				}
				all = append(all, s)
			}
			for range rounds {
				for _, s := range contest.Shuffled(all) {
					ns, err := s.sample()
					if err != nil {
						return err
					}
					f[s.name] = append(f[s.name], ns)
				}
			}
			return nil
		})
	}
	err := together(names[:3]...)
	for _, name := range names[3:] {
		err = errors.Join(err, together(name))
	}
	return f, err
}
