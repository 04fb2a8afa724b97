// SPDX-License-Identifier: Apache-2.0

package read

// Requests about netdevs.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// Netdevs lists the network devices as a JSON array.
func (rd *Reader) Netdevs(context.Context) (json.RawMessage, error) {
	infos, err := rd.netdevs.List()
	if err != nil {
		return nil, fmt.Errorf("list the netdevs: %w", err)
	}
	w := rd.view.Load()
	held := w.AllHolders()
	list := make([]netdevJSON, 0, len(infos))
	for _, info := range infos {
		list = append(list, describeNetdev(w, info, held))
	}
	return json.Marshal(list)
}

// Netdev describes one network device as a JSON array of one element, the form that existing clients expect.
func (rd *Reader) Netdev(_ context.Context, name string) (json.RawMessage, error) {
	info, err := rd.GetNetdev(name)
	if err != nil {
		return nil, err
	}
	w := rd.view.Load()
	return json.Marshal([]netdevJSON{describeNetdev(w, info, w.AllHolders())})
}

// GetNetdev asks the kernel for a device, and translates its errors to those of package cube.
func (rd *Reader) GetNetdev(name string) (netdev.Info, error) {
	info, err := rd.netdevs.Get(name)
	switch {
	case errors.Is(err, netdev.ErrNotFound):
		return info, &world.AbsentError{Kind: "netdev", Name: name, Err: cube.ErrNotFound}
	case errors.Is(err, netdev.ErrInvalidName):
		return info, fmt.Errorf("netdev: %w: %w", err, cube.ErrInvalid)
	case err != nil:
		return info, fmt.Errorf("netdev %.80s: %w", name, err)
	}
	return info, nil
}

// netdevJSON is a netdev in the form of answers.
type netdevJSON struct {
	Name      string   `json:"name"`
	Addresses []string `json:"addresses"`
	Index     int      `json:"index"`
	MAC       string   `json:"mac"`
	MTU       int      `json:"mtu"`
	Status    string   `json:"status"`
	Kind      string   `json:"kind"`
	Peer      string   `json:"peer"`
	Tcubes    []string `json:"tcubes"`
}

func describeNetdev(w *unit.Snapshot, info netdev.Info, held map[string][]world.Place) netdevJSON {
	d := netdevJSON{Name: info.Name, Addresses: []string{}, Index: info.Index, MAC: info.MAC.String(), MTU: info.MTU,
		Status: UpOrDown(info.Up), Kind: info.Kind, Tcubes: append([]string{}, w.Chains[info.Name]...)}
	for _, a := range info.Addresses {
		d.Addresses = append(d.Addresses, a.String())
	}
	for _, p := range held[info.Name] {
		d.Peer = p.String()
	}
	return d
}
