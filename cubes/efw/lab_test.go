// SPDX-License-Identifier: Apache-2.0

package efw_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/efw"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// status is the container of the model.
type status struct {
	Gate           string
	Generation     uint64
	Changes        uint64
	LastCompile    uint64 `json:"last-compile"`
	LastWithdrawal uint64 `json:"last-withdrawal"`
	Error          string
}

// line is an entry of the report or, with Name, of a chain.
type line struct {
	Family, Hook, Chain, Name, Text, Offloaded, Reason string
	Number                                             int
	Packets, Bytes                                     uint64
}

// The addresses of the lab: the host has the first ones, clients are behind veth1, servers behind veth2.
const (
	host    = "10.0.1.1"
	client  = "10.0.1.2"
	server  = "10.0.2.2"
	host6   = "fd00:1::1"
	client6 = "fd00:1::2"
	server6 = "fd00:2::2"
)

// router is a lab whose host forwards from veth1 to veth2, with the cube f on veth1.
type router struct {
	*bpftest.Lab
	t *testing.T
	// wires are the hosts' ends of the netdevs.
	wires [2]*netns.Raw
	// tables are those that a program has made, by its name.
	tables map[string]string
	// taken is the number of frames that have left by veth2 and were looked at.
	taken uint64
	// id is the identification of the last packet.
	id uint16
}

// services has the cubes of a lab read the host that the lab is.
func services(l *bpftest.Lab) []cube.Service {
	list := slices.Clone(cube.Services())
	for i := range list {
		if strings.Contains(list[i].Model, "module efw {") {
			list[i].New = func(env cube.Env) (cube.Instance, error) { return efw.NewIn(l.Do, env) }
		}
	}
	return list
}

// needIptables skips the test where there are no rules to offload.
func needIptables(t *testing.T) {
	t.Helper()
	for _, program := range []string{"iptables-legacy-save", "iptables-nft-save", "nft"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: there are no rules to offload", program)
		}
	}
}

func newRouter(t *testing.T, typ cube.Type, config string, options ...func(*bpftest.Options)) *router {
	t.Helper()
	o := bpftest.Options{Type: typ, Hosts: 2, Host: []netns.Option{netns.WithIPv6()}, Follow: true, ServicesIn: services}
	for _, set := range options {
		set(&o)
	}
	l := bpftest.New(t, o)
	r := &router{Lab: l, t: t, tables: map[string]string{}}
	l.Lab.Run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
	l.Lab.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.rp_filter=0",
		"net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
	// What the host answers to a broadcast address comes back to it. Before Linux 6.12 this limit is one of the machine.
	_ = l.Command("sysctl", "-qw", "net.ipv4.icmp_msgs_per_sec=1000000", "net.ipv4.icmp_msgs_burst=1000000").Run()
	for i, dev := range []string{"veth1", "veth2"} {
		l.Lab.Run("sysctl", "-qw", "net.ipv4.conf."+dev+".rp_filter=0", "net.ipv6.conf."+dev+".disable_ipv6=0",
			"net.ipv6.conf."+dev+".accept_dad=0")
		l.Lab.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", i+1), "dev", dev)
		l.Lab.Run("ip", "addr", "add", fmt.Sprintf("fd00:%d::1/64", i+1), "dev", dev, "nodad")
		mac := l.Hosts[i].MAC.String()
		for _, address := range []string{fmt.Sprintf("10.0.%d.2", i+1), fmt.Sprintf("10.0.%d.3", i+1), fmt.Sprintf("10.0.%d.9", i+1), fmt.Sprintf("fd00:%d::2", i+1)} {
			l.Lab.Run("ip", "neigh", "replace", address, "lladdr", mac, "dev", dev)
		}
		r.wires[i] = netns.OpenRaw(t, l.Hosts[i], netns.Inner)
	}
	l.Create("efw", "f", config)
	l.Attach("f", "veth1")
	r.open()
	return r
}

// RunBytes is that of the lab without the packets that the host sends meanwhile, such as reports of its multicast groups: they
// pass the cube on their way out.
func (r *router) RunBytes(dev string, frame []byte) (bpftest.Outcome, []byte) {
	r.t.Helper()
	out, got := r.Lab.RunBytes(dev, frame)
	fates := slices.DeleteFunc(strings.Split(out.Fate, ", "), func(fate string) bool { return strings.HasPrefix(fate, "f pass") })
	if len(fates) == 0 {
		fates = []string{"f pass"}
	}
	out.Fate = strings.Join(fates, ", ")
	return out, got
}

// status reads the state of the cube.
func (r *router) status() (s status) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.Read("f status")), &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// open waits until the gate is open, and no change of the host is left.
func (r *router) open() {
	r.t.Helper()
	netns.Eventually(r.t, bpftest.Patience, func() error {
		if s := r.status(); s.Gate != "OPEN" {
			return fmt.Errorf("the gate is %s: %s", s.Gate, s.Error)
		}
		return nil
	})
}

// changed changes the host, and waits until the cube has taken rules over, one of which has a text.
func (r *router) changed(text string, change func()) {
	r.t.Helper()
	change()
	netns.Eventually(r.t, bpftest.Patience, func() error {
		for _, l := range r.report() {
			if strings.Contains(l.Text, text) {
				return nil
			}
		}
		return fmt.Errorf("no rule has %q: %s", text, r.Read("f report"))
	})
	r.settled()
}

// judged runs the cube on a frame. It does so again if the gate may have been closed, as by a late message of the kernel.
func (r *router) judged(frame []byte) (out bpftest.Outcome, got []byte) {
	r.t.Helper()
	netns.Eventually(r.t, bpftest.Patience, func() error {
		before := r.status()
		out, got = r.RunBytes("veth1", slices.Clone(frame))
		after := r.status()
		if out.Verdict == "pass" && (before.Gate != "OPEN" || after.Gate != "OPEN" || before.Changes != after.Changes || before.Generation != after.Generation) {
			return fmt.Errorf("the gate was not open all the time: %+v, %+v", before, after)
		}
		return nil
	})
	return out, got
}

// restore replaces the rules of a firewall (iptables-legacy, iptables-nft ...).
func (r *router) restore(program, rules string) {
	r.t.Helper()
	cmd := r.Command(program + "-restore")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%s-restore: %v: %s\n%s", program, err, out, rules)
	}
}

// report returns the lines of the report.
func (r *router) report() (out []line) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.Read("f report")), &out); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// frame is one to the host's netdev.
func (r *router) mac() (from, to string) {
	return r.Hosts[0].MAC.String(), r.Hosts[0].OuterMAC.String()
}

// pin keeps the test on one CPU, so that the host takes frames in the order in which they are sent.
func (r *router) pin() {
	r.t.Helper()
	runtime.LockOSThread()
	var was, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		r.t.Fatal(err)
	}
	for cpu := range 1024 {
		if was.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = unix.SchedSetaffinity(0, &was)
		runtime.UnlockOSThread()
	})
}
