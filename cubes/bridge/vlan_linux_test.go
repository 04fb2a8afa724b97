// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// kernelPort makes a device a port of br0, the kernel's bridge, configured like one of ours.
func kernelPort(lab *netns.Lab, dev string, p *Port) {
	lab.Run("ip", "link", "set", dev, "master", "br0")
	untagged, ok := p.untaggedVLAN()
	for _, vlan := range p.vlans() {
		words := []string{"vlan", "add", "dev", dev, "vid", fmt.Sprint(vlan)}
		if ok && vlan == untagged {
			words = append(words, "pvid", "untagged")
		}
		lab.Run("bridge", words...)
	}
}

// TestFramesGoWhereLinuxWithVLANsSendsThem: the kernel's bridge lets a frame that has the tag of an access port's own VLAN in
// by that port. Ours and Open vSwitch do not: none is sent.
func TestFramesGoWhereLinuxWithVLANsSendsThem(t *testing.T) {
	t.Parallel()
	need.Features(t, need.BridgeVLAN)
	lab := netns.NewLab(t)
	m := newMatch(t)
	m.trunks()
	hosts := m.others(lab)
	lab.Run("ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "mcast_snooping", "0", "vlan_filtering", "1", "vlan_default_pvid", "0")
	for i, h := range hosts {
		kernelPort(lab, h.Outer, &m.ports[i])
	}
	lab.Run("ip", "link", "set", "br0", "up")
	m.devices = []*device{newDevice(t, "Linux", hosts)}
	m.ours()
	for i := range frames() {
		port := m.rng.IntN(len(m.ports))
		b := pkt.Eth(m.station(), m.destination())
		vlan := append(m.vlans, 0, 7)[m.rng.IntN(len(m.vlans)+2)]
		if p := &m.ports[port]; p.Mode == ModeAccess && p.Access.VLANID == vlan {
			vlan = 0
		}
		switch m.rng.IntN(6) {
		case 0, 1:
			b = b.PriorityVLAN(vlan, uint8(m.rng.IntN(8)))
		case 2:
			b = b.PriorityVLAN(vlan, uint8(m.rng.IntN(8))).VLAN(uint16(m.rng.IntN(4096)))
		}
		m.step(port, b.Data(append(binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, 46)...)).Bytes())
		if i%50 == 49 {
			m.compare()
		}
	}
	m.compare()
}
