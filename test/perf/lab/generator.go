// SPDX-License-Identifier: Apache-2.0

// Generators that send out of the netdev of a host.

package lab

import (
	"fmt"
	"net"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
)

// generator loads one, which sends from a host until the rig closes.
func (r *Rig) generator(program string, from *netns.Node) (*ebpf.Collection, error) {
	spec, err := bpf.Spec(program, cube.XDP)
	if err != nil {
		return nil, err
	}
	err = from.Do(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err != nil {
			return err
		}
		return spec.Variables["gen_ifindex"].Set(uint32(dev.Index))
	})
	if err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	r.Cleanup(coll.Close)
	return coll, nil
}
