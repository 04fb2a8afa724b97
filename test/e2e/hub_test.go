// SPDX-License-Identifier: Apache-2.0

// A service in Python with ports: sets for floods, peers, links, routes of the host, and entries written after a change.

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// hub is the state of a cube of the service hub.
type hub struct {
	Before, After uint32
	Neighbour     []neighbour
}

type neighbour struct {
	Port, Netdev, MAC string
	MTU               int
	Up                bool
}

// told waits until the service of a hub was told of its peers, and has written the version before and after the change.
func (d *daemon) told(version uint32, want ...neighbour) {
	d.t.Helper()
	netns.Eventually(d.t, patience, func() error {
		var got hub
		status, text, err := d.Request(http.MethodGet, "/hub/h1", "")
		if err == nil && status == http.StatusOK {
			err = json.Unmarshal([]byte(text), &got)
		}
		slices.SortFunc(got.Neighbour, func(a, b neighbour) int { return strings.Compare(a.Port, b.Port) })
		if err != nil || got.Before != version || got.After != version || !reflect.DeepEqual(got.Neighbour, want) {
			return fmt.Errorf("the service has versions %d and %d, want %d, and neighbours %+v, want %+v (%d, %w)",
				got.Before, got.After, version, got.Neighbour, want, status, err)
		}
		return nil
	})
}

// flooded checks which hosts a frame of the first one reaches.
func (d *daemon) flooded(hosts [3]*netns.Node, second, third bool) {
	d.t.Helper()
	frame := pkt.EthernetFrame([]byte{255, 255, 255, 255, 255, 255}, hosts[0].MAC, streamType, []byte("flood"))
	from := netns.OpenRaw(d.t, hosts[0], netns.Inner)
	to := [2]*netns.Raw{netns.OpenRaw(d.t, hosts[1], netns.Inner), netns.OpenRaw(d.t, hosts[2], netns.Inner)}
	got := [2]bool{}
	netns.Eventually(d.t, patience, func() error { // the first frames after a program was attached may be lost in the device
		if err := from.Send(frame); err != nil {
			return err
		}
		for i := range to {
			_, err := to[i].Recv(func(f []byte) bool { return strings.HasPrefix(string(f[14:]), "flood") }, patience/50)
			got[i] = err == nil
		}
		if got != [2]bool{second, third} {
			return fmt.Errorf("the frame reaches %v, want %v", got, [2]bool{second, third})
		}
		return nil
	})
}

func TestAServiceFloodsAndIsToldOfPeers(t *testing.T) {
	t.Parallel()
	python := pythonService(t, "polycube-quota")
	path := scriptService(t, python, "hub", "hub")
	for _, kind := range []string{"TC", "XDP_DRV"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			hosts := threeHosts(d.machine, v4)
			d.Do("services add type=lib uri=" + path + " name=hub")
			d.Do("hub add h1 type=" + kind)
			var peers []neighbour
			for i := range hosts {
				name := fmt.Sprintf("veth%d", i+1)
				d.Do(fmt.Sprintf("h1 ports add p%d peer=%s", i+1, name))
				peers = append(peers, neighbour{fmt.Sprintf("p%d", i+1), name, d.macOf(name), 1500, true})
			}
			d.told(1, peers...)
			d.flooded(hosts, true, true)

			d.Do("h1 set version=2")
			d.Do("h1 isolated add p2")
			d.told(2, peers...)
			d.flooded(hosts, false, true)
			d.lab.Run("ip", "link", "set", "veth3", "mtu", "1400")
			peers[2].MTU = 1400
			d.told(2, peers...)

			// A service that comes back is told again, and the sets are still there.
			for _, pid := range d.runs(python) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
			d.turns("h1", true)
			d.flooded(hosts, false, true)
			d.turns("h1", false)
			d.told(2, peers...)
			d.Do("h1 isolated del p2")
			d.flooded(hosts, true, true)
			d.Do("h1 ports del p3")
			d.told(2, peers[:2]...)
			d.routes()
			d.Do("del h1")
			d.Do("services del hub")
		})
	}
}

// macOf is the MAC address of a netdev of the machine.
func (d *daemon) macOf(name string) (mac string) {
	d.t.Helper()
	d.lab.Must(func() error {
		netdev, err := net.InterfaceByName(name)
		if err == nil {
			mac = netdev.HardwareAddr.String()
		}
		return err
	})
	return mac
}

// routes has the service, which has no network of its own, look up routes of the host.
func (d *daemon) routes() {
	d.t.Helper()
	d.lab.Host("up0", "10.9.0.1/24")
	d.lab.Run("ip", "addr", "add", "10.9.0.254/24", "dev", "up0")
	d.lab.Run("ip", "neigh", "replace", "10.9.0.7", "lladdr", "02:00:00:00:00:07", "dev", "up0")
	d.lab.Run("ip", "route", "add", "192.0.2.0/24", "via", "10.9.0.7")
	out := d.Do("h1 host route destination=192.0.2.1")
	for _, part := range []string{"up0", "10.9.0.7", "10.9.0.254", "02:00:00:00:00:07"} {
		if !strings.Contains(out, part) {
			d.t.Errorf("%s is not in the route:\n%s", part, out)
		}
	}
	d.refuses("h1 host route destination=198.51.100.1", "no route to 198.51.100.1")
	d.refuses("h1 host route destination=elsewhere", "must be an IPv4 or IPv6 address")
}
