// SPDX-License-Identifier: Apache-2.0

package router

// Routers with FRR in their namespaces: routes from OSPF and BGP are used by eBPF.

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// frrDir is where distributions install the FRR daemons.
const frrDir = "/usr/lib/frr"

// frr are the daemons of FRR in a cube's namespace.
type frr struct {
	t    *testing.T
	l    *bpftest.Lab
	cube string
	dir  string
}

// needFRR skips a test where FRR is not installed.
func needFRR(t *testing.T) {
	t.Helper()
	netns.NeedRoot(t)
	if _, err := os.Stat(filepath.Join(frrDir, "zebra")); err != nil {
		t.Skipf("FRR is not installed: apt-get install frr: %v", err)
	}
}

// startFRR starts zebra and other daemons, whose configurations are given by name.
func startFRR(t *testing.T, l *bpftest.Lab, cube string, confs map[string]string) *frr {
	t.Helper()
	dir, err := os.MkdirTemp("", "frr") // the test's own are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	f := &frr{t: t, l: l, cube: cube, dir: dir}
	f.own(f.dir)
	f.start("zebra", "hostname "+cube+"\n")
	netns.Eventually(t, patience, func() error { // the others require it
		_, err := os.Stat(filepath.Join(f.dir, "zserv.api"))
		return err
	})
	for _, daemon := range []string{"ospfd", "bgpd"} {
		if conf, ok := confs[daemon]; ok {
			f.start(daemon, conf)
		}
	}
	return f
}

// own makes a file belong to the user that the daemons run as.
func (f *frr) own(name string) {
	f.t.Helper()
	u, err := user.Lookup("frr")
	if err != nil {
		f.t.Fatal(err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chown(name, uid, -1); err != nil {
		f.t.Fatal(err)
	}
}

func (f *frr) start(daemon, conf string) {
	f.t.Helper()
	file := filepath.Join(f.dir, daemon+".conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		f.t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(f.dir, daemon+".log"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.own(file)
	args := []string{"-f", file, "-i", filepath.Join(f.dir, daemon+".pid"),
		"-z", filepath.Join(f.dir, "zserv.api"), "--vty_socket", f.dir, "-A", "127.0.0.1", "-P", "0", "--log", "stdout"}
	if daemon == "bgpd" {
		args = append(args, "-p", "179")
	}
	cmd := f.l.Within(f.cube, filepath.Join(frrDir, daemon), args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by the signal
		_ = out.Close()
		if f.t.Failed() {
			log, _ := os.ReadFile(out.Name())
			f.t.Logf("%s of %s:\n%s", daemon, f.cube, log)
		}
	})
}

// show queries a daemon.
func (f *frr) show(daemon, command string) string {
	out, _ := exec.Command("vtysh", "--vty_socket", f.dir, "-d", daemon, "-c", command).CombinedOutput()
	return string(out)
}

// eventually waits until a command's output contains the text.
func (f *frr) eventually(daemon, command, want string, times int) {
	f.t.Helper()
	netns.Eventually(f.t, pace.Stretch(time.Minute), func() error {
		if got := f.show(daemon, command); strings.Count(got, want) < times {
			return fmt.Errorf("%s of %s: %s\nwant %d times %s", command, f.cube, got, times, want)
		}
		return nil
	})
}

// ospf is the configuration of a router with links to others.
func ospf(id int, links ...string) string {
	var b strings.Builder
	for _, link := range links {
		fmt.Fprintf(&b, "interface %s\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n", link)
	}
	fmt.Fprintf(&b, "router ospf\n ospf router-id 192.0.2.%d\n network 10.0.0.0/8 area 0\n passive-interface host\n timers throttle spf 10 50 200\n", id)
	return b.String()
}

// triangle creates three routers with namespaces, connected to each other, with hosts at the first two.
func triangle(t *testing.T) *bpftest.Lab {
	t.Helper()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Mode: "call", Shadow: true, Follow: true})
	const quiet = `"shadow":true,"arp":{"duplicate-detection":false}`
	l.Create("router", "r1", `{`+quiet+`,"ports":[{"name":"host","peer":"veth1","ip":"10.1.0.1/24"},{"name":"to2","ip":"10.12.0.1/30"},{"name":"to3","ip":"10.13.0.1/30"}]}`)
	l.Create("router", "r2", `{`+quiet+`,"ports":[{"name":"host","peer":"veth2","ip":"10.2.0.1/24"},{"name":"to1","ip":"10.12.0.2/30"},{"name":"to3","ip":"10.23.0.1/30"}]}`)
	l.Create("router", "r3", `{`+quiet+`,"ports":[{"name":"to1","ip":"10.13.0.2/30"},{"name":"to2","ip":"10.23.0.2/30"}]}`)
	l.Connect("r1:to2", "r2:to1")
	l.Connect("r1:to3", "r3:to1")
	l.Connect("r2:to3", "r3:to2")
	for i, h := range l.Hosts {
		h.Run("ip", "addr", "add", fmt.Sprintf("10.%d.0.2/24", i+1), "dev", "eth0")
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.%d.0.1", i+1))
	}
	return l
}

// hasRoute waits until the list `route` of a cube has, or has not, a text.
func hasRoute(t *testing.T, l *bpftest.Lab, cube, text string, want bool) {
	t.Helper()
	netns.Eventually(t, pace.Stretch(time.Minute), func() error {
		if got := l.Read(cube + " route"); strings.Contains(got, text) != want {
			return fmt.Errorf("routes of %s are %s, want %s: %v", cube, got, text, want)
		}
		return nil
	})
}

func TestRoutersWithOSPFFindTheWayAndAnotherOne(t *testing.T) {
	needFRR(t)
	t.Parallel()
	l := triangle(t)
	r1 := startFRR(t, l, "r1", map[string]string{"ospfd": ospf(1, "to2", "to3")})
	startFRR(t, l, "r2", map[string]string{"ospfd": ospf(2, "to1", "to3")})
	startFRR(t, l, "r3", map[string]string{"ospfd": ospf(3, "to1", "to2")})
	r1.eventually("ospfd", "show ip ospf neighbor", "Full", 2)
	hasRoute(t, l, "r1", `"network":"10.2.0.0/24","nexthop":"10.12.0.2"`, true)
	hasRoute(t, l, "r2", `"network":"10.1.0.0/24","nexthop":"10.12.0.1"`, true)

	// Neighbours are resolved first: until then few packets are queued, and the others are lost.
	if err := l.Hosts[0].Ping("10.2.0.2"); err != nil {
		t.Error(err)
	}
	before := within(t, l, "r1")
	if err := l.Hosts[0].Ping("10.2.0.2", netns.PingOptions{Count: 200, Interval: 2 * time.Millisecond}); err != nil {
		t.Error(err)
	}
	if n := within(t, l, "r1") - before; n > 100 {
		t.Errorf("the namespace got %d packets while 400 were forwarded", n)
	}
	if got := says(l.Hosts[0], "ping", "-n", "-c", "1", "-W", "20", "-t", "2", "10.2.0.2"); !strings.Contains(got, "From 10.12.0.2") {
		t.Errorf("the second router on the way is not r2: %s", got)
	}

	l.Set("DELETE", "r1 ports to2 peer", "")
	hasRoute(t, l, "r1", `"network":"10.2.0.0/24","nexthop":"10.13.0.2"`, true)
	hasRoute(t, l, "r2", `"network":"10.1.0.0/24","nexthop":"10.23.0.2"`, true)
	hasRoute(t, l, "r3", `"network":"10.1.0.0/24","nexthop":"10.13.0.1"`, true)
	hasRoute(t, l, "r3", `"network":"10.2.0.0/24","nexthop":"10.23.0.1"`, true)
	if err := l.Hosts[0].Ping("10.2.0.2", netns.PingOptions{Count: 3, Interval: 200 * time.Millisecond}); err != nil {
		t.Errorf("by the other way: %v", err)
	}
	if got := says(l.Hosts[0], "ping", "-n", "-c", "1", "-W", "20", "-t", "2", "10.2.0.2"); !strings.Contains(got, "From 10.13.0.2") {
		t.Errorf("the second router on the way is not r3: %s", got)
	}

	l.Restart(nil)
	hasRoute(t, l, "r1", `"protocol":"ospf"`, true)
	if err := l.Hosts[0].Ping("10.2.0.2", netns.PingOptions{Count: 3, Interval: 200 * time.Millisecond}); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	l.Connect("r1:to2", "r2:to1")
	hasRoute(t, l, "r1", `"network":"10.2.0.0/24","nexthop":"10.12.0.2"`, true)
}

// within counts the packets that the interfaces of a cube's namespace have got.
func within(t *testing.T, l *bpftest.Lab, cube string) (n uint64) {
	t.Helper()
	out, err := l.Within(cube, "cat", "/proc/net/dev").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		name, rest, ok := strings.Cut(line, ":")
		var bytes, packets uint64
		if ok && strings.TrimSpace(name) != "lo" {
			if _, err := fmt.Sscan(rest, &bytes, &packets); err != nil {
				t.Fatal(err)
			}
			n += packets
		}
	}
	return n
}

// bgp is the configuration of a router in its own autonomous system, with neighbours in others.
func bgp(as int, network string, neighbours ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id 192.0.2.%d\n no bgp ebgp-requires-policy\n timers bgp 1 3\n", as, as)
	for i, n := range neighbours {
		fmt.Fprintf(&b, " neighbor %s remote-as external\n neighbor %[1]s timers connect 1\n", n)
		if i == 0 {
			fmt.Fprintf(&b, " bgp bestpath as-path multipath-relax\n")
		}
	}
	fmt.Fprintf(&b, " address-family ipv4 unicast\n  network %s\n  maximum-paths 4\n exit-address-family\n", network)
	return b.String()
}

func TestRoutersWithBGPShareTheTrafficAmongEqualPaths(t *testing.T) {
	needFRR(t)
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Mode: "call", Shadow: true})
	const quiet = `"shadow":true,"arp":{"duplicate-detection":false}`
	l.Create("router", "r1", `{`+quiet+`,"ports":[{"name":"host","peer":"veth1","ip":"10.1.0.1/24"},{"name":"a","ip":"10.12.1.1/30"},{"name":"b","ip":"10.12.2.1/30"}]}`)
	l.Create("router", "r2", `{`+quiet+`,"ports":[{"name":"host","peer":"veth2","ip":"10.2.0.1/24"},{"name":"a","ip":"10.12.1.2/30"},{"name":"b","ip":"10.12.2.2/30"}]}`)
	l.Connect("r1:a", "r2:a")
	l.Connect("r1:b", "r2:b")
	for i, h := range l.Hosts {
		h.Run("ip", "addr", "add", fmt.Sprintf("10.%d.0.2/24", i+1), "dev", "eth0")
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.%d.0.1", i+1))
	}
	startFRR(t, l, "r1", map[string]string{"bgpd": bgp(1, "10.1.0.0/24", "10.12.1.2", "10.12.2.2")})
	startFRR(t, l, "r2", map[string]string{"bgpd": bgp(2, "10.2.0.0/24", "10.12.1.1", "10.12.2.1")})
	for _, gateway := range []string{"10.12.1.2", "10.12.2.2"} {
		hasRoute(t, l, "r1", `"network":"10.2.0.0/24","nexthop":"`+gateway+`","interface":"`, true)
	}
	hasRoute(t, l, "r2", `"protocol":"bgp"`, true)
	before := [2]uint64{l.Counters("r1", "a").TxPackets, l.Counters("r1", "b").TxPackets}
	for port := range 32 { // a flow stays on its path, many flows take both
		l.Hosts[0].Run("bash", "-c", fmt.Sprintf("echo hello >/dev/udp/10.2.0.2/%d || true", 9000+port))
	}
	for i, name := range []string{"a", "b"} {
		netns.Eventually(t, patience, func() error {
			if n := l.Counters("r1", name).TxPackets - before[i]; n < 4 {
				return fmt.Errorf("%d of 32 flows took path %s", n, name)
			}
			return nil
		})
	}
	l.Set("DELETE", "r1 ports a peer", "")
	hasRoute(t, l, "r1", `"nexthop":"10.12.1.2"`, false)
	netns.Eventually(t, pace.Stretch(time.Minute), func() error { // zebra may withdraw the whole route before it installs the one over the remaining path
		return l.Hosts[0].Ping("10.2.0.2", netns.PingOptions{Count: 3, Timeout: time.Second})
	})
}
