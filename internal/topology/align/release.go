// SPDX-License-Identifier: Apache-2.0

package align

// Netdevs get their own addresses back when nothing of Polycube stays in the kernel: then nobody answers for the addresses
// of ports any more.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/world"
)

// ReleaseAll removes from netdevs what the ports of stored cubes gave them. The records stay as they are. A record that
// cannot be read has no ports.
func ReleaseAll(records []store.Record, netdevs Netdevs) error {
	var errs []error
	for _, r := range records {
		var s world.Stored
		if !strings.HasPrefix(r.Key, world.CubeKey) || json.Unmarshal(r.Value, &s) != nil {
			continue
		}
		var config struct {
			Ports []struct{ Name, Peer, MAC string }
		}
		if json.Unmarshal(s.Config, &config) != nil {
			continue
		}
		own := map[string]string{}
		for _, p := range s.Ports {
			own[p.Name] = p.OwnMAC
		}
		for _, p := range config.Ports {
			if (&world.Port{Peer: p.Peer}).OnNetdev() {
				errs = append(errs, release(netdevs, p.Peer, p.MAC, own[p.Name]))
			}
		}
	}
	return errors.Join(errs...)
}

// release removes our addresses from a netdev. If it has the MAC address `given`, it gets its own back.
func release(netdevs Netdevs, name, given, own string) error {
	status, err := netdevs.Status(name)
	if errors.Is(err, netdev.ErrNotFound) || errors.Is(err, netdev.ErrInvalidName) {
		return nil
	}
	if err != nil {
		return err
	}
	d := netdev.Settings{Remove: status.Ours}
	if mac, err := net.ParseMAC(own); err == nil && strings.EqualFold(given, status.MAC.String()) {
		d.MAC = mac
	}
	if err := netdevs.Put(status.Index, d); err != nil {
		return fmt.Errorf("netdev %s keeps the addresses of a port: %w", name, err)
	}
	return nil
}
