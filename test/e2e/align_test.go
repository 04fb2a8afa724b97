// SPDX-License-Identifier: Apache-2.0

// A router's port and the netdev that is its peer have the same addresses, whichever side changes.

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// aligned is a machine with a router and netdevs of hosts.
type aligned struct {
	*daemon
	t *testing.T
}

func newAligned(t *testing.T, args ...string) aligned {
	d := newMachine(t).Start(args...)
	for _, dev := range []string{"veth1", "veth2"} {
		d.lab.Host(dev, "")
	}
	return aligned{d, t}
}

// netdev waits until a netdev has just these addresses, in any order.
func (a aligned) netdev(name string, want ...string) {
	a.t.Helper()
	slices.Sort(want)
	netns.Eventually(a.t, patience, func() error {
		var devs []struct {
			Info []struct {
				Local     string `json:"local"`
				PrefixLen int    `json:"prefixlen"`
				Scope     string `json:"scope"`
			} `json:"addr_info"`
		}
		if err := json.Unmarshal([]byte(a.lab.Run("ip", "-j", "addr", "show", "dev", name)), &devs); err != nil {
			return err
		}
		got := []string{}
		for _, i := range devs[0].Info {
			if i.Scope == "global" {
				got = append(got, fmt.Sprintf("%s/%d", i.Local, i.PrefixLen))
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("%s has %v, want %v", name, got, want)
		}
		return nil
	})
}

// macOf is the MAC address of a netdev.
func (a aligned) macOf(name string) string {
	a.t.Helper()
	var devs []struct{ Address string }
	if err := json.Unmarshal([]byte(a.lab.Run("ip", "-j", "link", "show", "dev", name)), &devs); err != nil {
		a.t.Fatal(err)
	}
	return devs[0].Address
}

// mac waits until a netdev has a MAC address.
func (a aligned) mac(name, want string) {
	a.t.Helper()
	netns.Eventually(a.t, patience, func() error {
		if got := a.macOf(name); got != want {
			return fmt.Errorf("%s has %s, want %s", name, got, want)
		}
		return nil
	})
}

// port waits until a port has a primary address, and the others as secondary ones; a MAC address "" is any.
func (a aligned) port(name, mac, ip string, others ...string) {
	a.t.Helper()
	slices.Sort(others)
	netns.Eventually(a.t, patience, func() error {
		var p struct {
			IP          string
			Secondaryip []struct{ IP string }
			Mac         string
		}
		a.Get("/router/r1/ports/"+name, &p)
		got := []string{}
		for _, s := range p.Secondaryip {
			got = append(got, s.IP)
		}
		slices.Sort(got)
		if p.IP != ip || !slices.Equal(got, append([]string{}, others...)) || mac != "" && p.Mac != mac {
			return fmt.Errorf("port %s has %s %v, %s, want %s %v, %s", name, p.IP, got, p.Mac, ip, others, mac)
		}
		return nil
	})
}

func TestAPortTakesTheAddressesOfItsNetdev(t *testing.T) {
	t.Parallel()
	a := newAligned(t)
	a.lab.Run("sysctl", "-qw", "net.ipv6.conf.veth1.disable_ipv6=0")
	for _, addr := range []string{"198.18.1.1/24", "198.18.2.1/24", "2001:db8:1::1/64"} {
		a.lab.Run("ip", "addr", "add", addr, "dev", "veth1")
	}
	a.lab.Run("ip", "addr", "add", "169.254.1.1/16", "dev", "veth1", "scope", "link")
	mac := a.macOf("veth1")
	a.Do("router add r1")
	a.Do("r1 ports add p1")
	a.Do("connect r1:p1 veth1")
	a.port("p1", mac, "198.18.1.1/24", "198.18.2.1/24", "2001:db8:1::1/64")

	a.lab.Run("ip", "addr", "del", "198.18.1.1/24", "dev", "veth1")
	a.port("p1", mac, "198.18.2.1/24", "2001:db8:1::1/64")
	a.lab.Run("ip", "addr", "add", "198.18.3.1/24", "dev", "veth1")
	a.port("p1", mac, "198.18.2.1/24", "198.18.3.1/24", "2001:db8:1::1/64")
	a.lab.Run("ip", "link", "set", "veth1", "address", "02:00:00:00:0a:01")
	a.port("p1", "02:00:00:00:0a:01", "198.18.2.1/24", "198.18.3.1/24", "2001:db8:1::1/64")

	// The netdev's own addresses stay when the port is deleted, and the port's new ones are added to them.
	a.Do("r1 ports p1 set ip=198.18.2.9/24")
	a.netdev("veth1", "198.18.2.1/24", "198.18.2.9/24", "198.18.3.1/24", "2001:db8:1::1/64")
	a.Do("disconnect r1:p1 veth1")
	a.netdev("veth1", "198.18.2.1/24", "198.18.3.1/24", "2001:db8:1::1/64")
	a.port("p1", "", "198.18.2.9/24", "198.18.3.1/24", "2001:db8:1::1/64")
}

func TestANetdevTakesTheAddressesOfItsPort(t *testing.T) {
	t.Parallel()
	a := newAligned(t)
	a.lab.Run("sysctl", "-qw", "net.ipv6.conf.veth1.disable_ipv6=0")
	own := a.macOf("veth1")
	a.Must(http.StatusCreated, "POST", "/router/r1", `{"ports":[{"name":"p1","ip":"198.18.1.1/24","mac":"02:00:00:00:01:01",
		"secondaryip":[{"ip":"198.18.1.2/24"},{"ip":"2001:db8:1::1/64"}]},{"name":"p2"}]}`)
	a.Do("connect r1:p1 veth1")
	a.netdev("veth1", "198.18.1.1/24", "198.18.1.2/24", "2001:db8:1::1/64")
	a.mac("veth1", "02:00:00:00:01:01")
	if got := a.lab.Run("ip", "route", "show", "dev", "veth1"); got != "" {
		t.Errorf("the host has routes into the router: %s", got)
	}
	before := a.Do("export")
	if r := a.applyText(before, "--prune", "--detailed-exitcode"); r.code != 0 || !strings.HasPrefix(r.stdout, "no change") {
		t.Errorf("its own export: %s", r)
	}

	for _, step := range []struct {
		do   string
		mac  string
		want []string
	}{
		{"r1 ports p1 set ip=198.18.1.9/24", "02:00:00:00:01:01", []string{"198.18.1.2/24", "198.18.1.9/24", "2001:db8:1::1/64"}},
		{"r1 ports p1 set mac=02:00:00:00:01:09", "02:00:00:00:01:09", []string{"198.18.1.2/24", "198.18.1.9/24", "2001:db8:1::1/64"}},
		{"r1 ports p1 secondaryip del 2001:db8:1::1/64", "02:00:00:00:01:09", []string{"198.18.1.2/24", "198.18.1.9/24"}},
		{"r1 ports p1 set align=off", own, nil},
		{"r1 ports p1 set align=both", "02:00:00:00:01:09", []string{"198.18.1.2/24", "198.18.1.9/24"}},
		{"r1 ports p1 set align=port-follows-netdev", own, nil},
		{"r1 ports p1 set align=both", "02:00:00:00:01:09", []string{"198.18.1.2/24", "198.18.1.9/24"}},
		{"connect r1:p2 veth2", "02:00:00:00:01:09", []string{"198.18.1.2/24", "198.18.1.9/24"}},
	} {
		a.Do(step.do)
		a.netdev("veth1", step.want...)
		a.mac("veth1", step.mac)
	}
	// An unset address is removed from the netdev, and does not return from there.
	a.Do("r1 ports p1 del mac")
	a.mac("veth1", own)
	a.Do("r1 ports p1 secondaryip del 198.18.1.2/24")
	for _, unset := range []string{"r1 ports p1 ip del", "r1 ports p1 set ip="} {
		a.Do(unset)
		a.netdev("veth1")
		a.port("p1", own, "")
		a.Do("r1 ports p1 set ip=198.18.1.9/24")
		a.netdev("veth1", "198.18.1.9/24")
	}
	a.Do("r1 ports p1 secondaryip add 198.18.1.2/24")
	a.Do("r1 ports p1 set mac=02:00:00:00:01:09")
	a.netdev("veth1", "198.18.1.2/24", "198.18.1.9/24")
	a.mac("veth1", "02:00:00:00:01:09")
	// Changes of the netdev are followed, also of addresses that the port gave it.
	a.lab.Run("ip", "addr", "del", "198.18.1.2/24", "dev", "veth1")
	a.port("p1", "", "198.18.1.9/24")
	a.lab.Run("ip", "link", "set", "veth1", "address", "02:00:00:00:0a:01")
	a.port("p1", "02:00:00:00:0a:01", "198.18.1.9/24")

	// The operator's own address stays, although the kernel treats it as secondary to the port's.
	a.lab.Run("ip", "addr", "add", "198.18.1.77/24", "dev", "veth1")
	a.port("p1", "", "198.18.1.9/24", "198.18.1.77/24")
	a.Do("router del r1")
	a.netdev("veth1", "198.18.1.77/24")
	a.applyText(before)
	a.netdev("veth1", "198.18.1.1/24", "198.18.1.2/24", "198.18.1.77/24", "2001:db8:1::1/64")
	a.Do("router del r1")
	a.netdev("veth1", "198.18.1.77/24")
}

// TestADocumentWithoutAddressesIsAppliedTwice: addresses that a port took are not in the document.
func TestADocumentWithoutAddressesIsAppliedTwice(t *testing.T) {
	t.Parallel()
	a := newAligned(t)
	a.lab.Run("ip", "addr", "add", "198.18.1.1/24", "dev", "veth1")
	const doc = `[{"name":"r1","service-name":"router","ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}],
		"route":[{"network":"198.19.0.0/16","nexthop":"198.18.1.2"}]}]`
	const first = `[{"name":"r1","service-name":"router","ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}]}]`
	if r := a.applyText(first); r.code != 0 {
		t.Fatalf("%s", r)
	}
	a.port("p1", "", "198.18.1.1/24")
	if r := a.applyText(first, "--detailed-exitcode"); r.code != 0 || !strings.HasPrefix(r.stdout, "no change") {
		t.Errorf("applied again: %s", r)
	}
	if r := a.applyText(doc, "--detailed-exitcode"); r.code != 3 && r.code != 0 {
		t.Errorf("with a route by a network that the port took: %s", r)
	}
	for range 2 {
		a.Must(http.StatusCreated, "PUT", "/router/r1/ports/p1", `{"name":"p1","peer":"veth1"}`)
		a.port("p1", "", "198.18.1.1/24")
	}
}

func TestAlignmentOutlivesTheDaemon(t *testing.T) {
	t.Parallel()
	a := newAligned(t)
	own := a.macOf("veth1")
	a.lab.Run("ip", "addr", "add", "198.18.2.1/24", "dev", "veth2")
	a.Must(http.StatusCreated, "POST", "/router/r1", `{"ports":[
		{"name":"p1","peer":"veth1","ip":"198.18.1.1/24","mac":"02:00:00:00:01:01"},{"name":"p2","peer":"veth2"}]}`)
	a.port("p2", "", "198.18.2.1/24")
	before := a.Configuration()
	for _, kill := range []bool{false, true} {
		if kill {
			a.Kill9()
		} else {
			a.Stop()
		}
		a.netdev("veth1", "198.18.1.1/24")
		a.lab.Run("ip", "addr", "del", "198.18.1.1/24", "dev", "veth1") // as after a reboot
		a.daemon = a.machine.Start()
		a.netdev("veth1", "198.18.1.1/24")
		a.netdev("veth2", "198.18.2.1/24")
		if got := a.Configuration(); got != before {
			t.Errorf("after a restart the configuration is\n%s\nit was\n%s", got, before)
		}
	}
	a.Stop()
	a.daemon = a.machine.Start()
	a.Do("disconnect r1:p1 veth1")
	a.Do("disconnect r1:p2 veth2")
	a.netdev("veth1")
	a.mac("veth1", own)
	a.netdev("veth2", "198.18.2.1/24")
}

func TestAnotherWayOfTheHostIsLeftAlone(t *testing.T) {
	t.Parallel()
	a := newAligned(t)
	a.lab.Run("ip", "addr", "add", "198.18.1.77/24", "dev", "veth2")
	a.Must(http.StatusCreated, "POST", "/router/r1", `{"ports":[{"name":"p1","peer":"veth1","ip":"198.18.1.1/24"},
		{"name":"p2","ip":"198.18.3.1/24"}]}`)
	a.netdev("veth1")
	a.Do("r1 ports p1 secondaryip add 198.18.4.1/24")
	a.netdev("veth1", "198.18.4.1/24")
	a.lab.Run("ip", "addr", "add", "198.18.4.77/24", "dev", "veth2") // it appears later
	a.netdev("veth1")
	a.port("p1", "", "198.18.1.1/24", "198.18.4.1/24")
	a.lab.Run("ip", "addr", "flush", "dev", "veth2")
}

// TestNetdevsGetTheirLooksBack when nothing may stay in the kernel, and get the addresses again from the next daemon.
func TestNetdevsGetTheirLooksBack(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		args []string
		end  func(aligned)
	}{
		"--on-exit=clean": {[]string{"--on-exit=clean"}, func(a aligned) { a.Stop() }},
		"cleanup after kill -9": {nil, func(a aligned) {
			a.Kill9()
			if r := a.Polycubed("cleanup"); r.code != 0 {
				a.t.Error(r)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAligned(t, end.args...)
			a.lab.Run("ip", "addr", "add", "198.18.9.9/24", "dev", "veth1")
			own := a.macOf("veth1")
			a.Must(http.StatusCreated, "POST", "/router/r1", `{"ports":[{"name":"p1","ip":"198.18.1.1/24","mac":"02:00:00:00:01:01",
				"secondaryip":[{"ip":"198.18.1.2/24"}]},{"name":"p2"}]}`)
			a.Do("connect r1:p1 veth1")
			a.Do("connect r1:p2 veth2")
			given := func() {
				t.Helper()
				a.netdev("veth1", "198.18.1.1/24", "198.18.1.2/24", "198.18.9.9/24")
				a.mac("veth1", "02:00:00:00:01:01")
			}
			given()
			end.end(a)
			a.netdev("veth1", "198.18.9.9/24")
			a.mac("veth1", own)
			a.daemon = a.machine.Start()
			given()
			a.Do("r1 del")
			a.netdev("veth1", "198.18.9.9/24")
			a.mac("veth1", own)
		})
	}
}

// TestTheMachineIsNoDuplicate: another netdev of the machine is on the same link, and Linux answers there for the address that
// the port's netdev got.
func TestTheMachineIsNoDuplicate(t *testing.T) {
	t.Parallel()
	d := newMachine(t).Start()
	lan, second := d.lab.Host("veth1", ""), d.lab.Host("veth2", "")
	second.Run("ip", "link", "set", "eth0", "down")
	second.Run("ip", "link", "set", "eth0", "name", "eth1", "netns", lan.Name)
	lan.Run("ip", "link", "add", "br0", "type", "bridge")
	for _, dev := range []string{"eth0", "eth1"} {
		lan.Run("ip", "link", "set", dev, "master", "br0", "up")
	}
	lan.Run("ip", "link", "set", "br0", "up")
	link, otherLink := netns.OpenRaw(t, lan, "eth0"), netns.OpenRaw(t, lan, "eth1")
	a := aligned{d, t}
	own, other := macBytes(t, a.macOf("veth1")), macBytes(t, a.macOf("veth2"))

	d.Do("router add r1")
	d.Do("r1 ports add p1 peer=veth1 ip=198.18.1.1/24")
	says := func(what string, ear *netns.Raw, op byte, mac []byte) {
		t.Helper()
		sender := append(append([]byte{0, op}, mac...), 198, 18, 1, 1)
		if _, err := ear.Recv(func(f []byte) bool { return len(f) >= 42 && string(f[20:32]) == string(sender) }, patience); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	says("the machine does not answer on its other link", otherLink, 2, other)
	says("the router does not announce its address", link, 1, own) // after the address was checked for duplicates
	duplicates := func(router string) []string {
		t.Helper()
		var p struct {
			Duplicate []string `json:"duplicate-address"`
		}
		a.Get("/router/"+router+"/ports/p1", &p)
		return p.Duplicate
	}
	if got := duplicates("r1"); len(got) > 0 {
		t.Errorf("the router takes the machine for another one: %v", got)
	}
	// Another router is another one, on the same machine, too.
	d.Do("router add r2")
	d.Do("r2 ports add p1 peer=veth2 ip=198.18.1.1/24")
	netns.Eventually(t, patience, func() error {
		if got := duplicates("r2"); !slices.Equal(got, []string{"198.18.1.1"}) {
			return fmt.Errorf("r2 has the duplicates %v", got)
		}
		return nil
	})
}

func macBytes(t *testing.T, text string) []byte {
	t.Helper()
	mac, err := net.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}
