// SPDX-License-Identifier: Apache-2.0

package read

// The MAC address for which a port accepts packets. The cube's model marks the leaf of its ports that contains the
// address; ports of other cubes, such as a bridge, accept packets for any address.

import (
	"context"
	"encoding/json"
	"net"

	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// StationAt returns the MAC address of the port that a packet injected at a place reaches, nil if that port accepts any
// address. The place is one that CapturePlace returned. A packet that a transparent cube receives on egress leaves
// through its port and reaches that port's peer.
func (rd *Reader) StationAt(ctx context.Context, name string, egress bool) net.HardwareAddr {
	w := rd.view.Load()
	at, err := w.NextPlace(name, egress)
	if err != nil {
		return nil
	}
	rec, p, err := w.PortAt(at)
	if err != nil {
		return nil
	}
	return rd.stationOf(ctx, rec, p.Name)
}

// stationOf reads the leaf that the cube's model marks, configured or not.
func (rd *Reader) stationOf(ctx context.Context, rec *world.Cube, portName string) net.HardwareAddr {
	svc, err := rd.LoadedService(rec.Service)
	if err != nil {
		return nil
	}
	for _, leaf := range svc.Schema.Root().Child("ports").Children() {
		if _, marked := leaf.Extension("port-mac"); !marked || leaf.Kind() != yang.Leaf {
			continue
		}
		raw, err := rd.Read(ctx, rec.Service, rec.Name, yang.Path{{Name: "ports", Keys: []string{portName}}, {Name: leaf.Name()}})
		var text string
		if err != nil || json.Unmarshal(raw, &text) != nil {
			return nil // the address is unknown, so it is not filled in
		}
		mac, err := net.ParseMAC(text)
		if err != nil || len(mac) != 6 {
			return nil
		}
		return mac
	}
	return nil
}
