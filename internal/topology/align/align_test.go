// SPDX-License-Identifier: Apache-2.0

package align

// What a change does to one device, and that it can be undone.

import (
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/neighbours"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/test/pkt"
)

// device is the only netdev, eth1. With stiff, it does not change its MAC address while it is up.
type device struct {
	status netdev.Status
	gone   bool
	stiff  bool
}

func (d *device) Get(string) (netdev.Info, error) { return netdev.Info{}, netdev.ErrNotFound }

func (d *device) Status(name string) (netdev.Status, error) {
	if d.gone || name != "eth1" {
		return netdev.Status{}, netdev.ErrNotFound
	}
	status := d.status
	status.Addresses, status.Ours = slices.Clone(status.Addresses), slices.Clone(status.Ours)
	return status, nil
}

func (d *device) Put(_ int, s netdev.Settings) error {
	if s.MAC != nil {
		if d.stiff {
			return unix.EBUSY
		}
		d.status.MAC = s.MAC
	}
	d.status.Addresses = append(world.Without(d.status.Addresses, s.Remove), s.Add...)
	d.status.Ours = append(world.Without(d.status.Ours, s.Remove), s.Add...)
	return nil
}

const own, given = "02:00:00:00:00:01", "02:00:00:00:00:99"

// aligner aligns a device that has an address of another owner.
func aligner(t *testing.T, d *device) *Aligner {
	d.status.Index, d.status.Up, d.status.MAC, d.status.Addresses = 7, true, pkt.MAC(own), pkt.Prefixes("10.0.0.9/24")
	var view atomic.Pointer[unit.Snapshot]
	view.Store(unit.NewSnapshot())
	return New(d, neighbours.New(&view, d, &unit.News{}), slog.New(slog.NewTextHandler(t.Output(), nil)), func() bool { return true })
}

func TestANetdevGetsAndLosesTheAddressesOfItsPort(t *testing.T) {
	tests := []struct {
		name      string
		device    device
		want      cube.Alignment
		addresses []netip.Prefix
		mac       string
		// ownMAC is the netdev's own address that the port has saved.
		ownMAC string
	}{
		{name: "addresses", want: cube.Alignment{Interface: cube.Interface{Addresses: pkt.Prefixes("10.1.0.1/24")}},
			addresses: pkt.Prefixes("10.0.0.9/24", "10.1.0.1/24"), mac: own},
		{name: "a MAC address", want: cube.Alignment{Interface: cube.Interface{MAC: pkt.MAC(given)}},
			addresses: pkt.Prefixes("10.0.0.9/24"), mac: given, ownMAC: own},
		{name: "a MAC address that it cannot take", device: device{stiff: true},
			want:      cube.Alignment{Interface: cube.Interface{MAC: pkt.MAC(given), Addresses: pkt.Prefixes("10.1.0.1/24")}},
			addresses: pkt.Prefixes("10.0.0.9/24", "10.1.0.1/24"), mac: own},
		{name: "an address that somebody else gave it", want: cube.Alignment{Interface: cube.Interface{Addresses: pkt.Prefixes("10.0.0.9/24")}},
			addresses: pkt.Prefixes("10.0.0.9/24"), mac: own},
		{name: "nothing, when the port follows the netdev",
			want:      cube.Alignment{ReadOnly: true, Interface: cube.Interface{MAC: pkt.MAC(given), Addresses: pkt.Prefixes("10.1.0.1/24")}},
			addresses: pkt.Prefixes("10.0.0.9/24"), mac: own},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := tt.device
			a := aligner(t, &d)
			before := d.status
			check := func(step string, addresses []netip.Prefix, mac string) {
				t.Helper()
				if !slices.Equal(d.status.Addresses, addresses) || d.status.MAC.String() != mac {
					t.Errorf("%s: the netdev has %v and %v, want %v and %s", step, d.status.Addresses, d.status.MAC, addresses, mac)
				}
			}
			p := &world.Port{Name: "p1", UUID: "u", Peer: "eth1"}
			aligned := map[string]*world.Aligned{}
			c := a.Begin(aligned)
			if err := c.Set(p, tt.want); err != nil {
				t.Fatal(err)
			}
			check("set", tt.addresses, tt.mac)
			if p.OwnMAC != tt.ownMAC || aligned["eth1"] == nil {
				t.Errorf("the port keeps %q, want %q; aligned are %v", p.OwnMAC, tt.ownMAC, aligned)
			}
			if err := c.Undo(); err != nil {
				t.Fatal(err)
			}
			check("undone", before.Addresses, own)
			p.OwnMAC = ""
			clear(aligned)

			c = a.Begin(aligned)
			if err := c.Set(p, tt.want); err != nil {
				t.Fatal(err)
			}
			c = a.Begin(aligned)
			c.Release(p)
			check("released", before.Addresses, own)
			if p.OwnMAC != "" || len(aligned) > 0 {
				t.Errorf("after the release, the port keeps %q, and aligned are %v", p.OwnMAC, aligned)
			}
			if err := c.Undo(); err != nil {
				t.Fatal(err)
			}
			check("release undone", tt.addresses, tt.mac)
		})
	}
}

func TestANetdevThatHasDisappearedIsNoError(t *testing.T) {
	d := device{}
	a := aligner(t, &d)
	d.gone = true
	p := &world.Port{Name: "p1", UUID: "u", Peer: "eth1", OwnMAC: own}
	aligned := map[string]*world.Aligned{"eth1": {PortUUID: "u"}}
	if err := a.Begin(aligned).Set(p, cube.Alignment{Interface: cube.Interface{MAC: pkt.MAC(given)}}); err != nil {
		t.Error(err)
	}
	if p.OwnMAC != "" || len(aligned) > 0 {
		t.Errorf("the port keeps %q, and aligned are %v", p.OwnMAC, aligned)
	}
}

func TestOnlyThePortThatANetdevIsAlignedWithReleasesIt(t *testing.T) {
	d := device{}
	a := aligner(t, &d)
	aligned := map[string]*world.Aligned{}
	c := a.Begin(aligned)
	if err := c.Set(&world.Port{Name: "p1", UUID: "u1", Peer: "eth1"}, cube.Alignment{Interface: cube.Interface{Addresses: pkt.Prefixes("10.1.0.1/24")}}); err != nil {
		t.Fatal(err)
	}
	before := d.status
	c.Release(&world.Port{Name: "p2", UUID: "u2", Peer: "eth1"})
	c.Release(&world.Port{Name: "p3", UUID: "u1", Peer: "br1:p1"})
	if !reflect.DeepEqual(d.status, before) || aligned["eth1"] == nil {
		t.Errorf("the netdev is %+v, want %+v; aligned are %v", d.status, before, aligned)
	}
}
