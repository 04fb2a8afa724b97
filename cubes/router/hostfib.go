// SPDX-License-Identifier: Apache-2.0

package router

// Forwarding by the host's routes: the host's netdevs that are peers of ports.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// netdevEntry is struct router_netdev.
type netdevEntry struct {
	Mac   inet.MAC
	Index uint32
	_     uint32
}

// PeerChanged records the netdev of a port.
func (r *router) PeerChanged(port string, peer cube.Peer) {
	was := r.peers[port]
	r.peers[port] = peer
	if err := r.followMAC(port, was); err != nil {
		r.env.Logger().Error("a port has another MAC address than its netdev", "port", port, "error", err)
	}
	if err := r.writePeers(); err != nil {
		r.env.Logger().Error("update the netdevs of ports", "error", err)
	}
}

// writePeers updates the maps from the peers of the existing ports. The entry of a removed netdev is deleted before its
// index may be reused.
func (r *router) writePeers() error {
	is := map[uint32]uint32{}
	entries := map[uint32]netdevEntry{}
	for name, p := range r.peers {
		s := r.now.byName[name]
		if s == nil {
			delete(r.peers, name)
			continue
		}
		if p.Index == 0 || len(p.MAC) != 6 {
			continue
		}
		is[uint32(p.Index)] = uint32(s.index)
		entries[uint32(s.index)] = netdevEntry{Mac: inet.MACOf(p.MAC), Index: uint32(p.Index)}
	}
	ports := table.New[uint32, uint32](r.env, "netdev_ports")
	var gone []uint32
	var err error
	for index := range ports.All(&err) {
		if _, stays := is[index]; !stays {
			gone = append(gone, index)
		}
	}
	if err != nil {
		return err
	}
	if _, err := ports.DeleteAll(gone); err != nil {
		return err
	}
	for index, port := range is {
		if err := ports.Set(index, port); err != nil {
			return err
		}
	}
	return writeNetdevs(table.New[uint32, netdevEntry](r.env, "netdevs"), entries)
}

// writeNetdevs sets the wanted entries of an array, and the others to zero.
func writeNetdevs(t table.Table[uint32, netdevEntry], want map[uint32]netdevEntry) error {
	var stale []uint32
	var err error
	for index, e := range t.All(&err) {
		if e != want[index] {
			stale = append(stale, index)
		}
	}
	if err != nil {
		return err
	}
	for _, index := range stale {
		if err := t.Set(index, want[index]); err != nil {
			return err
		}
	}
	return nil
}
