// SPDX-License-Identifier: Apache-2.0

package pdusession

// Tunnels of network instances.

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
)

// simpleIn is a session with tunnels in a network instance.
func simpleIn(instance, ip string, teid uint32) *Session {
	s := simple(ip, teid)
	s.Rules[0].Instance, s.Rules[1].Forward.Instance = instance, instance
	return s
}

func TestTheSameTEIDInTwoNetworkInstances(t *testing.T) {
	all := maps(t, nil)
	tables := opened(t, all)
	first, second := put(t, tables, nil, simple(deviceIP, 100)), put(t, tables, nil, simpleIn("n9", "10.1.0.2", 100))
	b := tables.Begin()
	if _, err := b.Put(nil, simpleIn("n9", "10.1.0.3", 100)); !errors.Is(err, cube.ErrExists) || !strings.Contains(err.Error(), "TEID 100 of network instance") {
		t.Errorf("a third session: %v", err)
	}
	if err := b.Abort(); err != nil {
		t.Error(err)
	}
	n9 := gtppath.Tunnel{TEID: 100, Instance: gtppath.Instance("n9")}
	for key, rows := range map[gtppath.Tunnel]*Rows{{TEID: 100}: first, n9: second} {
		is, ok, err := tables.tunnel(TunnelKey(key.Instance)<<32 | TunnelKey(key.TEID))
		if err != nil || !ok || is.Rule != rows.Block || is.Session != rows.Number {
			t.Errorf("%v: %+v, %v, %v, want row %d", key, is, ok, err, rows.Block)
		}
	}
	if got := tables.rules.values[second.Block+1].Index >> instanceBit; got != n9.Instance {
		t.Errorf("packets to the device are sent from network instance %d", got)
	}

	// A session moves to another network instance, and is found again.
	second = put(t, tables, second, simpleIn("n3", "10.1.0.2", 100))
	want := contents(t, tables)
	text, err := json.Marshal([]*Rows{first, second})
	if err != nil {
		t.Fatal(err)
	}
	var kept []*Rows
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	put(t, tables, nil, simpleIn("n9", "10.1.0.4", 400)) // which was not stored
	next := opened(t, all)
	if missing, removed, err := next.Adopt(kept); err != nil || len(missing) != 0 || removed != 2 {
		t.Errorf("%v are missing, %d keys removed, %v", missing, removed, err)
	}
	if is := contents(t, next); is != want {
		t.Errorf("before:\n%safter:\n%s", want, is)
	}
}

// TestPeersHaveTheNetworkInstanceOfTheirFirstSession, as Echo Requests come from one address.
func TestPeersHaveTheNetworkInstanceOfTheirFirstSession(t *testing.T) {
	tables := opened(t, maps(t, nil))
	put(t, tables, nil, simpleIn("n9", deviceIP, 100))
	put(t, tables, nil, simple("10.1.0.2", 100))
	value, ok, err := tables.stations.Get(inet.AddressOf(netip.MustParseAddr(gNB)))
	if err != nil || !ok || value != gtppath.Station(gtppath.Instance("n9")) {
		t.Errorf("%#x, %v, %v", value, ok, err)
	}
}

// TestACubeOfAnEarlierDaemonHasNoNetworkInstances, and its other sessions are as they are.
func TestACubeOfAnEarlierDaemonHasNoNetworkInstances(t *testing.T) {
	all := maps(t, nil)
	tables, err := openFrom(func(name string) (*ebpf.Map, error) {
		if name == "named_tunnels" {
			return nil, os.ErrNotExist
		}
		return all[name].Clone()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	if _, _, err := tables.Adopt(nil); err != nil {
		t.Error(err)
	}
	put(t, tables, nil, simple(deviceIP, 100))
	want := contents(t, tables)
	b := tables.Begin()
	if _, err := b.Put(nil, simpleIn("n9", "10.1.0.2", 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Commit(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a network instance: %v", err)
	}
	if is := contents(t, tables); is != want {
		t.Errorf("before:\n%safter:\n%s", want, is)
	}
}
