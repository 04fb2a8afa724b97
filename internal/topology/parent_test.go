// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/test/pkt"
)

// told returns the last notification of the filters and their number, and resets both.
func (l *lab) told() (last cube.Parent, times int) {
	l.t.Helper()
	l.quiet()
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	times = len(l.b.parents)
	if times > 0 {
		last = l.b.parents[times-1]
	}
	l.b.parents = nil
	return last, times
}

// change reports the present state of a netdev.
func (l *lab) change(change func(*netdev.Info)) {
	old := l.devs.infos["veth1"]
	now := old
	change(&now)
	l.devs.set(now)
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: now, Old: &old})
}

func TestParametersOfAParentAreInherited(t *testing.T) {
	l := newLab(t)
	device := netdev.Info{Name: "veth1", Index: 10, Up: true, MTU: 1500, MAC: pkt.MAC("02:00:00:00:00:10"), Addresses: pkt.Prefixes("10.0.0.1/24")}
	l.devs.set(device)
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: device})
	l.must(`create toybridge br1 <<< {"ports":[{"name":"p1"},{"name":"p2"}]}`, `create toyfilter th1`)
	leaves := func(text string) json.RawMessage { return json.RawMessage(text) }
	for _, c := range []struct {
		step string
		do   func()
		want cube.Parent
	}{
		{"on a port without a peer", func() { l.must(`attach th1 br1:p1`) },
			cube.Parent{Name: "br1:p1", Cube: "br1", Port: "p1", Leaves: leaves(`{"name":"p1","tcubes":["th1"]}`)}},
		{"a netdev behind the port", func() { l.must(`connect br1:p1 veth1`) },
			cube.Parent{Name: "br1:p1", Cube: "br1", Port: "p1", Peer: "veth1", Netdev: "veth1", Index: 10, MTU: 1500,
				MAC: device.MAC, Addresses: device.Addresses, Leaves: leaves(`{"name":"p1","peer":"veth1","tcubes":["th1"]}`)}},
		{"a MAC address of the port's own", func() { l.must(`patch br1 ports p1 mac <<< "02:00:00:00:00:99"`) },
			cube.Parent{Name: "br1:p1", Cube: "br1", Port: "p1", Peer: "veth1", Netdev: "veth1", Index: 10, MTU: 1500,
				MAC: pkt.MAC("02:00:00:00:00:99"), Addresses: device.Addresses,
				Leaves: leaves(`{"mac":"02:00:00:00:00:99","name":"p1","peer":"veth1","tcubes":["th1"]}`)}},
		{"the netdev's MTU", func() { l.change(func(i *netdev.Info) { i.MTU = 9000 }) },
			cube.Parent{Name: "br1:p1", Cube: "br1", Port: "p1", Peer: "veth1", Netdev: "veth1", Index: 10, MTU: 9000,
				MAC: pkt.MAC("02:00:00:00:00:99"), Addresses: device.Addresses,
				Leaves: leaves(`{"mac":"02:00:00:00:00:99","name":"p1","peer":"veth1","tcubes":["th1"]}`)}},
		{"detached", func() { l.must(`detach th1 br1:p1`) }, cube.Parent{}},
		{"on the netdev itself", func() { l.must(`attach th1 veth1`) },
			cube.Parent{Name: "veth1", Netdev: "veth1", Index: 10, MTU: 9000, MAC: device.MAC, Addresses: device.Addresses}},
		{"the netdev's addresses", func() {
			l.change(func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.0.0.1/24", "fe80::1/64") })
		}, cube.Parent{Name: "veth1", Netdev: "veth1", Index: 10, MTU: 9000, MAC: device.MAC, Addresses: pkt.Prefixes("10.0.0.1/24", "fe80::1/64")}},
		{"the netdev's MAC address", func() { l.change(func(i *netdev.Info) { i.MAC = pkt.MAC("02:00:00:00:00:11") }) },
			cube.Parent{Name: "veth1", Netdev: "veth1", Index: 10, MTU: 9000, MAC: pkt.MAC("02:00:00:00:00:11"),
				Addresses: pkt.Prefixes("10.0.0.1/24", "fe80::1/64")}},
		{"the netdev is gone", func() { l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: l.devs.remove("veth1")}) },
			cube.Parent{Name: "veth1", Netdev: "veth1"}},
		{"was restored", func() {
			device.Index = 20
			l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: l.devs.set(device)})
		}, cube.Parent{Name: "veth1", Netdev: "veth1", Index: 20, MTU: 1500, MAC: device.MAC, Addresses: device.Addresses}},
		{"a restart", func() { l.stop(); l.start() },
			cube.Parent{Name: "veth1", Netdev: "veth1", Index: 20, MTU: 1500, MAC: device.MAC, Addresses: device.Addresses}},
	} {
		c.do()
		got, times := l.told()
		if times != 1 || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: told %d times, at last %+v (%s), want %+v (%s)", c.step, times, got, got.Leaves, c.want, c.want.Leaves)
		}
	}
	l.must(`patch br1 ports p1 mac <<< "02:00:00:00:00:98"`, `patch th1 ingress-action <<< "DROP"`)
	l.change(func(i *netdev.Info) { i.Carrier = true })
	if got, times := l.told(); times != 0 {
		t.Errorf("what it does not inherit is told: %+v", got)
	}
}

func TestLeavesOfTheParentPort(t *testing.T) {
	p := cube.Parent{Leaves: json.RawMessage(`{"ip":"10.0.0.1/24","mtu":1400,"up":true}`)}
	var ip string
	var mtu int
	if !p.Leaf("ip", &ip) || !p.Leaf("mtu", &mtu) || ip != "10.0.0.1/24" || mtu != 1400 {
		t.Errorf("ip %q, mtu %d", ip, mtu)
	}
	for _, c := range []struct {
		p    cube.Parent
		name string
	}{{p, "mac"}, {p, "up"}, {cube.Parent{}, "ip"}} {
		if c.p.Leaf(c.name, &ip) {
			t.Errorf("%s of %s is a string: %q", c.name, c.p.Leaves, ip)
		}
	}
}

// A notified cube may begin a transaction, and is notified once of many changes while it is busy.
func TestParentsAreToldOutsideOfTransactions(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1 <<< {"ports":[{"name":"p1"}]}`, `create toyfilter th1`)
	inside, release, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	first := true
	l.b.setFail(func(call string) error {
		if call == "th1 ParentChanged" && first {
			first = false
			close(inside)
			<-release
			failed <- l.do(`patch br1 note <<< "from the filter"`)
		}
		return nil
	})
	l.must(`attach th1 br1:p1`)
	<-inside
	for i := range 10 {
		l.must(fmt.Sprintf(`patch br1 ports p1 mac <<< "02:00:00:00:00:%02d"`, i))
	}
	close(release)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	last, times := l.told()
	if times != 2 || last.MAC.String() != "02:00:00:00:00:09" {
		t.Errorf("told %d times, at last %v, want twice and ...:09", times, last.MAC)
	}
	l.wantRead(`"from the filter"`, "br1", "note")
}
