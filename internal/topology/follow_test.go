// SPDX-License-Identifier: Apache-2.0

package topology

// Events of several netdevs together, and the reason why a port is down.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/world"
)

// reason returns the reason of a port's status.
func reason(l *lab, name, portName string) string {
	l.t.Helper()
	w := l.view.Load()
	rec, p, err := w.PortAt(world.Place{Cube: name, Port: portName})
	if err != nil {
		l.t.Fatal(err)
	}
	return w.Remark(rec, p, l.notes)
}

func TestAPortSaysWhyItIsDown(t *testing.T) {
	veth := netdev.Info{Name: "veth1", Index: 10, Up: true, Carrier: true, Kind: "veth"}
	with := func(change func(*netdev.Info)) netdev.Info {
		i := veth
		change(&i)
		return i
	}
	changed := func(i netdev.Info) netdev.Event { return netdev.Event{Kind: netdev.Changed, Info: i, Old: &veth} }
	cases := []struct {
		name   string
		event  netdev.Event
		status string
		want   string // "" wants no reason
	}{
		{"all is well", changed(veth), "UP", ""},
		{"down", changed(with(func(i *netdev.Info) { i.Up = false })), "DOWN", "veth1 is down: ip link set veth1 up"},
		{"no carrier", changed(with(func(i *netdev.Info) { i.Carrier = false })), "UP", "set its other end up"},
		{"renamed", changed(with(func(i *netdev.Info) { i.Name = "other0" })), "DOWN", "it was renamed to other0: the port is bound again when it appears"},
		{"deleted", netdev.Event{Kind: netdev.Removed, Info: veth}, "DOWN", "it was deleted or moved to another namespace"},
		{"replaced by a TUN", changed(with(func(i *netdev.Info) { i.Kind, i.NoEthernet = "tun", true })), "DOWN", "has no Ethernet frames: use a TAP"},
		{"replaced by an ifb", changed(with(func(i *netdev.Info) { i.Kind = "ifb" })), "DOWN", "is an ifb device"},
		{"a macvlan", changed(with(func(i *netdev.Info) { i.Kind, i.OwnOnly = "macvlan", true })), "UP", "mode passthru"},
		{"a TAP that nobody has open", changed(with(func(i *netdev.Info) { i.Kind, i.Carrier = "tap", false })), "UP", "nothing is attached to its other end"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t)
			l.devs.set(veth)
			l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"}]}`)
			l.NetdevEvent(c.event)
			l.wantRead(`"`+c.status+`"`, "br", "ports", "p1", "status")
			got := reason(l, "br", "p1")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Fatalf("the reason is %q, want %q", got, c.want)
			}
			if c.want != "" {
				l.wantRead(fmt.Sprintf("%q", got), "br", "ports", "p1", "status-reason")
			}
			shown, err := l.Topology(context.Background())
			if err != nil || strings.Contains(string(shown), "status-reason") != (c.want != "") {
				t.Errorf("the topology is %s, %v", shown, err)
			}
			// It works again when the device is as it was.
			now := c.event.Info
			l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: veth, Old: &now})
			l.wantRead(`"UP"`, "br", "ports", "p1", "status")
			if got := reason(l, "br", "p1"); got != "" {
				t.Errorf("at last the reason is %q", got)
			}
		})
	}
}

func TestAPortSaysWhatIsWrongAtTheOtherCube(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge b1 <<< {"ports":[{"name":"p1"}]}`, `create toybridge b2 <<< {"ports":[{"name":"p1"}]}`,
		`patch b1 ports p1 <<< {"peer":"b2:p1"}`)
	if got := reason(l, "b1", "p1"); got != "b2:p1 is not connected to this port: polycubectl connect b1:p1 b2:p1" {
		t.Errorf("the reason is %q", got)
	}
	l.must(`patch b2 ports p1 <<< {"peer":"b1:p1"}`)
	if got := reason(l, "b1", "p1"); got != "" {
		t.Errorf("connected, the reason is %q", got)
	}
}

func TestDevicesThatCannotBePeersAreRefusedWithTheRemedy(t *testing.T) {
	for _, c := range []struct {
		info   netdev.Info
		peer   string // "" for what is taken
		attach string
	}{
		{netdev.Info{Kind: "veth"}, "", ""},
		{netdev.Info{Kind: "vxlan"}, "", ""},
		{netdev.Info{Kind: "macvlan", OwnOnly: true}, "", ""},
		{netdev.Info{Kind: "tun", NoEthernet: true}, "use a TAP", "use a TAP"},
		{netdev.Info{Kind: "wireguard", NoEthernet: true}, "use a TAP", "use a TAP"},
		{netdev.Info{Kind: "loopback"}, "one end of a veth pair", ""},
		{netdev.Info{Kind: "ifb"}, "use the device that it mirrors", ""},
	} {
		t.Run(c.info.Kind, func(t *testing.T) {
			l := newLab(t)
			c.info.Name, c.info.Index, c.info.Up, c.info.Carrier = "dev0", 5, true, true
			l.devs.set(c.info)
			l.must(`create toybridge br <<< {"ports":[{"name":"p1"}]}`, `create toyfilter th`)
			for line, want := range map[string]string{`connect br:p1 dev0`: c.peer, `attach th dev0`: c.attach} {
				err := l.do(line)
				if (err == nil) != (want == "") || err != nil && (!errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), want)) {
					t.Errorf("%s: %v, want %q", line, err, want)
				}
			}
		})
	}
}

// busyLab is a lab that logs, with ports on n netdevs, eight in each cube: br0 p0 to p7, br1 and so on.
func busyLab(t *testing.T, n int) (l *lab, lines *strings.Builder) {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprint("veth", i))
	}
	lines = &strings.Builder{}
	l = newLoggingLab(t, slog.NewTextHandler(lines, nil), names...)
	for i := 0; i < n; i += 8 {
		var ports []string
		for k := range min(8, n-i) {
			ports = append(ports, fmt.Sprintf(`{"name":"p%d","peer":"veth%d"}`, k, i+k))
		}
		l.must(fmt.Sprintf(`create toybridge br%d <<< {"ports":[%s]}`, i/8, strings.Join(ports, ",")))
	}
	return l, lines
}

func TestManyEventsAreOneChange(t *testing.T) {
	const n = 200
	l, lines := busyLab(t, n)
	var gone, back []netdev.Event
	for i := range n {
		info := l.devs.remove(fmt.Sprint("veth", i))
		gone = append(gone, netdev.Event{Kind: netdev.Removed, Info: info})
		info.Index += 1000
		l.devs.set(info)
		back = append(back, netdev.Event{Kind: netdev.Added, Info: info})
	}
	prepared := func() int { return l.plane.prepared }
	for _, step := range []struct {
		name, status string
		events       []netdev.Event
		changes      int
	}{
		{"all go", "DOWN", gone, 1},
		{"all come back", "UP", back, 1},
		{"nothing is new", "UP", back, 0},
	} {
		before := prepared()
		l.NetdevEvents(step.events)
		if got := prepared() - before; got != step.changes {
			t.Errorf("%s: %d changes of the data plane, want %d", step.name, got, step.changes)
		}
		for _, c := range []string{"br0", "br24"} {
			l.wantRead(`"`+step.status+`"`, c, "ports", "p7", "status")
		}
	}
	if down := strings.Count(lines.String(), "a port is down"); down != n {
		t.Errorf("%d lines tell of ports that are down, want one of each of %d", down, n)
	}
}

func TestADeviceWithTheNumberOfOneThatWentIsAnother(t *testing.T) {
	l, _ := busyLab(t, 1)
	info := l.devs.infos["veth0"]
	var indexes []int
	l.plane.refuse = func(g *datapath.Graph) error {
		indexes = append(indexes, g.Netdevs["veth0"].Index)
		return nil
	}
	l.NetdevEvents([]netdev.Event{{Kind: netdev.Removed, Info: info}, {Kind: netdev.Added, Info: info}})
	if fmt.Sprint(indexes) != fmt.Sprint([]int{0, info.Index}) {
		t.Errorf("the data plane is given the indexes %v, want it to lose the old device first", indexes)
	}
}

func TestOneBadDeviceDoesNotKeepOthersOut(t *testing.T) {
	l, lines := busyLab(t, 3)
	l.plane.refuse = func(g *datapath.Graph) error {
		if g.Netdevs["veth1"].Index == 501 {
			return fmt.Errorf("the driver of veth1 does not support XDP_DRV; use type XDP_SKB or TC: %w", cube.ErrUnsupported)
		}
		return nil
	}
	var events []netdev.Event
	for i := range 3 {
		info := l.devs.infos[fmt.Sprint("veth", i)]
		info.Index = 500 + i
		events = append(events, netdev.Event{Kind: netdev.Added, Info: l.devs.set(info)})
	}
	for range 3 {
		l.NetdevEvents(events)
	}
	for i, status := range []string{"UP", "DOWN", "UP"} {
		l.wantRead(`"`+status+`"`, "br0", "ports", fmt.Sprint("p", i), "status")
	}
	if got := reason(l, "br0", "p1"); !strings.Contains(got, "use type XDP_SKB or TC") {
		t.Errorf("the reason is %q", got)
	}
	if n := strings.Count(lines.String(), "cannot be used"); n != 1 {
		t.Errorf("the refusal is logged %d times, want once:\n%s", n, lines)
	}
	// No event reports that the obstacle is gone; a request does.
	if err := l.do(`connect br0:p1 veth1`); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("connected again while it is refused: %v", err)
	}
	l.wantRead(`"DOWN"`, "br0", "ports", "p1", "status")
	l.plane.refuse = nil
	l.must(`connect br0:p1 veth1`)
	l.wantRead(`"UP"`, "br0", "ports", "p1", "status")
}

func TestADeviceThatWentUnwatchedIsMissed(t *testing.T) {
	l, _ := busyLab(t, 2)
	l.devs.remove("veth0")
	synced := []netdev.Event{{Kind: netdev.Added, Info: l.devs.infos["veth1"]}, {Kind: netdev.Synced}}
	l.NetdevEvents(synced)
	l.wantRead(`"DOWN"`, "br0", "ports", "p0", "status")
	l.wantRead(`"UP"`, "br0", "ports", "p1", "status")
	// One that was added after the listing is in the kernel, and stays.
	info := l.devs.set(netdev.Info{Name: "veth0", Index: 77, Up: true, Carrier: true, Kind: "veth"})
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: info})
	l.NetdevEvents(synced[1:])
	l.wantRead(`"UP"`, "br0", "ports", "p0", "status")
}

func TestDevicesThatNobodyUsesAreNoChange(t *testing.T) {
	l, _ := busyLab(t, 1)
	before := l.plane.prepared
	info := l.devs.set(netdev.Info{Name: "docker7", Index: 900, Up: true, Carrier: true, Kind: "veth"})
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: info})
	l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: info})
	if l.plane.prepared != before {
		t.Error("a device that nobody uses changes the data plane")
	}
	if _, known := l.view.Load().Links["docker7"]; known {
		t.Error("a device that is gone and that nobody uses is kept")
	}
}
