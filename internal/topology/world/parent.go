// SPDX-License-Identifier: Apache-2.0

package world

// What a transparent cube inherits from the place where it is attached, as data.

import (
	"encoding/json"
	"net"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// Fill sets the members that the port's configuration has, and takes the others from the netdev. from is nil if there
// is no port.
func Fill(p *cube.Parent, from *Cube, device netdev.Info) {
	p.Index, p.MAC, p.MTU, p.Addresses = device.Index, device.MAC, device.MTU, device.Addresses
	if from == nil {
		return
	}
	entry := portConfig(from, p.Port)
	if entry == nil {
		return
	}
	p.Leaves, _ = json.Marshal(entry) // it was decoded from JSON
	if text, ok := entry["mac"].(string); ok {
		if mac, err := net.ParseMAC(text); err == nil {
			p.MAC = mac
		}
	}
	if number, ok := entry["mtu"].(json.Number); ok {
		if mtu, err := number.Int64(); err == nil {
			p.MTU = int(mtu)
		}
	}
	if addresses := addressesOf(entry); len(addresses) > 0 {
		p.Addresses = addresses
	}
}

// addressesOf are a port's own addresses, the primary one first.
func addressesOf(entry map[string]any) []netip.Prefix {
	primary, ok := entry["ip"].(string)
	if !ok {
		return nil
	}
	texts := []string{primary}
	others, _ := entry["secondaryip"].([]any)
	for _, o := range others {
		switch o := o.(type) {
		case string:
			texts = append(texts, o)
		case map[string]any:
			text, _ := o["ip"].(string)
			texts = append(texts, text)
		}
	}
	var list []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			list = append(list, prefix)
		} else if addr, err := netip.ParseAddr(text); err == nil {
			list = append(list, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return list
}

// portConfig is the entry of a port in its cube's configuration, nil if there is none.
func portConfig(rec *Cube, portName string) map[string]any {
	object, err := rec.Config.Decode()
	if err != nil {
		return nil
	}
	ports, _ := object["ports"].([]any)
	for _, entry := range ports {
		if e, ok := entry.(map[string]any); ok && e["name"] == portName {
			return e
		}
	}
	return nil
}
