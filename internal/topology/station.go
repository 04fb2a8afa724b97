// SPDX-License-Identifier: Apache-2.0

package topology

// The MAC address that a port accepts packets for. The cube's model marks the leaf of its ports that holds the address;
// ports of other cubes, such as a bridge, accept packets for any address.

import (
	"context"
	"encoding/json"
	"net"

	"github.com/polycube/polycube/internal/yang"
)

// StationAt returns the MAC address of the port that a packet injected at a place reaches, nil if that port accepts any
// address. The place is one of CapturePlace's. A packet that a transparent cube receives on egress leaves by its port and
// reaches that port's peer.
func (m *Manager) StationAt(ctx context.Context, name string, egress bool) net.HardwareAddr {
	w := m.view.Load()
	at, err := w.next(name, egress)
	if err != nil {
		return nil
	}
	rec, p, err := w.portAt(at)
	if err != nil {
		return nil
	}
	return m.stationOf(ctx, rec, p.name)
}

// next is the port, or netdev, that a packet at a place comes to.
func (w *world) next(name string, egress bool) (place, error) {
	if rec := w.cubes[name]; rec != nil && rec.transparent {
		name = rec.parent
	}
	at, err := parsePlace(name)
	if err != nil {
		return place{}, err
	}
	switch {
	case at.netdev != "" && egress:
		return at, nil // the wire, or the stack
	case at.netdev != "":
		if held := w.allHolders()[at.netdev]; len(held) > 0 {
			return held[0], nil
		}
		return at, nil
	case egress:
		return w.peerOf(at)
	}
	return at, nil
}

// stationOf reads the leaf that the cube's model marks, configured or not.
func (m *Manager) stationOf(ctx context.Context, rec *record, portName string) net.HardwareAddr {
	svc, err := m.service(rec.service)
	if err != nil {
		return nil
	}
	for _, leaf := range svc.schema.Root().Child("ports").Children() {
		if _, marked := leaf.Extension("port-mac"); !marked || leaf.Kind() != yang.Leaf {
			continue
		}
		raw, err := m.Read(ctx, rec.service, rec.name, yang.Path{{Name: "ports", Keys: []string{portName}}, {Name: leaf.Name()}})
		var text string
		if err != nil || json.Unmarshal(raw, &text) != nil {
			return nil // no address is known, so none is filled in
		}
		mac, err := net.ParseMAC(text)
		if err != nil || len(mac) != 6 {
			return nil
		}
		return mac
	}
	return nil
}
