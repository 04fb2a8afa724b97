// SPDX-License-Identifier: Apache-2.0

package bridge

// The same ports and the same frames, in random order, for this bridge and another one: the output of each port must be
// the same. The other one is the kernel's bridge, with and without VLANs, or Open vSwitch.

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// device is a bridge under test, by the hosts at its ports.
type device struct {
	name  string
	wires []*netns.Raw
	// left are the frames that left each port, but for those that keep step.
	left []map[string]int
}

func newDevice(t *testing.T, name string, hosts []*netns.Node) *device {
	d := &device{name: name}
	for _, h := range hosts {
		d.wires = append(d.wires, netns.OpenRaw(t, h, netns.Inner))
		d.left = append(d.left, map[string]int{})
	}
	return d
}

// inStep is the first bytes of the sources of frames that keep step.
const inStep = "02:ff:00:00:00:%02x"

func isPace(frame []byte) bool { return frame[6] == 2 && frame[7] == 0xff }

// await reads the output of a port until the frame with that payload arrives.
func (d *device) await(port int, payload []byte) error {
	_, err := d.wires[port].Recv(func(f []byte) bool {
		if !isPace(f) {
			d.left[port][string(f)]++
			return false
		}
		return strings.Contains(string(f), string(payload))
	}, pace.Stretch(20*time.Second))
	if err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

// drain reads the output of the ports.
func (d *device) drain() {
	for port := range d.wires {
		for {
			f, err := d.wires[port].Recv(nil, 0)
			if err != nil {
				break
			}
			if !isPace(f) {
				d.left[port][string(f)]++
			}
		}
	}
}

// match is a random comparison. Its last port is a trunk of all VLANs, by which a frame from any other port leaves.
type match struct {
	t       *testing.T
	rng     *rand.Rand
	ports   []Port
	devices []*device
	vlans   []uint16
	serial  uint32
	sent    []string
}

func newMatch(t *testing.T) *match {
	return &match{t: t, rng: rand.New(rand.NewPCG(repeat.Seed(t), 0))}
}

// tagOf puts a frame into a VLAN as a port sends it; 0: untagged.
func (m *match) tagOf(port int) (uint16, bool) {
	p := &m.ports[port]
	if native, ok := p.untaggedVLAN(); ok {
		return native, false
	}
	return p.vlans()[m.rng.IntN(len(p.vlans()))], true
}

// step sends a frame into a port of each device, and waits until it was processed: until a later frame from the same
// port has left by the watcher.
func (m *match) step(port int, f []byte) {
	m.sent = append(m.sent, fmt.Sprintf("%d: %x", port, f))
	watcher := len(m.ports) - 1
	vlan, isTagged := m.tagOf(port)
	if port == watcher {
		vlan, _ = m.tagOf(0)
		watcher, isTagged = 0, m.vlans != nil
	}
	for range 2 { // the second is queued after all copies of the first
		m.serial++
		payload := binary.BigEndian.AppendUint32([]byte("pace"), m.serial)
		b := pkt.Eth(fmt.Sprintf(inStep, port), pkt.Broadcast)
		if isTagged {
			b = b.VLAN(vlan)
		}
		step := b.Data(append(payload, make([]byte, 46)...)).Bytes()
		for _, d := range m.devices {
			for _, one := range [][]byte{f, step} {
				if one == nil {
					continue
				}
				if err := d.wires[port].Send(one); err != nil {
					m.t.Fatal(err)
				}
			}
		}
		for _, d := range m.devices {
			if err := d.await(watcher, payload); err != nil {
				m.fatal("frame %d: %v", len(m.sent), err)
			}
		}
		f = nil
	}
}

func (m *match) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf(format+"\n%s\nsent, by port from 0 on\n%s", append(args, m.config(), strings.Join(m.sent, "\n"))...)
}

// compare compares all devices with the first.
func (m *match) compare() {
	for _, d := range m.devices {
		d.drain()
	}
	first := m.devices[0]
	for _, d := range m.devices[1:] {
		for port := range m.ports {
			if maps.Equal(first.left[port], d.left[port]) {
				continue
			}
			for f := range merged(first.left[port], d.left[port]) {
				if a, b := first.left[port][f], d.left[port][f]; a != b {
					m.t.Errorf("port %d sent %x: %s %d times, %s %d times", port, f, first.name, a, d.name, b)
				}
			}
		}
	}
	if m.t.Failed() {
		m.fatal("they differ")
	}
}

func merged(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// station is one of a few addresses, so that they move and are found.
func (m *match) station() string { return fmt.Sprintf("02:00:00:00:00:%02x", 1+m.rng.IntN(8)) }

func (m *match) destination() string {
	switch m.rng.IntN(8) {
	case 0:
		return pkt.Broadcast
	case 1:
		return "01:00:5e:00:00:07"
	}
	return m.station()
}

// config is the configuration of our bridge. Its ports lead to the hosts of a lab.
func (m *match) config() string {
	var list []string
	for i := range m.ports {
		p := &m.ports[i]
		body := fmt.Sprintf(`"access":{"vlanid":%d}`, p.Access.VLANID)
		if p.Mode == ModeTrunk {
			var allowed []string
			for _, a := range p.Trunk.Allowed {
				allowed = append(allowed, fmt.Sprintf(`{"vlanid":%d}`, a.VLANID))
			}
			body = fmt.Sprintf(`"mode":"trunk","trunk":{"allowed":[%s],"native-vlan-enabled":%v,"native-vlan":%d}`,
				strings.Join(allowed, ","), p.Trunk.NativeVLANEnabled, p.Trunk.NativeVLAN)
		}
		list = append(list, fmt.Sprintf(`{"name":"p%d","peer":"veth%d",%s}`, i+1, i+1, body))
	}
	return `{"ports":[` + strings.Join(list, ",") + `]}`
}

// ours adds bridges of each type.
func (m *match) ours() {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		l := bpftest.New(m.t, bpftest.Options{Type: typ, Hosts: len(m.ports)})
		l.Create("bridge", "br", m.config())
		m.devices = append(m.devices, newDevice(m.t, string(typ), l.Hosts))
	}
}

// others creates the hosts of another bridge.
func (m *match) others(lab *netns.Lab) []*netns.Node {
	var hosts []*netns.Node
	for i := range m.ports {
		hosts = append(hosts, lab.Host(fmt.Sprintf("veth%d", i+1), ""))
	}
	return hosts
}

func frames() int {
	if os.Getenv("POLYCUBE_SOAK") != "" {
		return 20000
	}
	return 400
}

func TestFramesGoWhereLinuxSendsThem(t *testing.T) {
	t.Parallel()
	lab := netns.NewLab(t)
	m := newMatch(t)
	m.ports = slices.Repeat([]Port{{Access: Access{VLANID: defaultVLAN}}}, 3+m.rng.IntN(4))
	hosts := m.others(lab)
	lab.Run("ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
	for _, h := range hosts {
		lab.Run("ip", "link", "set", h.Outer, "master", "br0")
	}
	lab.Run("ip", "link", "set", "br0", "up")
	m.devices = []*device{newDevice(t, "Linux", hosts)}
	m.ours()
	for i := range frames() {
		from, to := m.station(), m.destination()
		switch m.rng.IntN(20) {
		case 0:
			// Not the one for pauses, from which Linux does not learn; no bridge gets it from a network card.
			to = fmt.Sprintf("01:80:c2:00:00:%02x", []int{0, 2, 3, 0xe, 0xf, 0x10}[m.rng.IntN(6)])
		case 1:
			from = "03:00:00:00:00:01"
		}
		b := pkt.Eth(from, to)
		if m.rng.IntN(10) == 0 {
			b = b.ServiceVLAN(uint16(m.rng.IntN(4096)))
		}
		m.step(m.rng.IntN(len(m.ports)), b.Data(append(binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, 46)...)).Bytes())
		if i%50 == 49 {
			m.compare()
		}
	}
	m.compare()
}

// port returns a random port configuration.
func (m *match) port() Port {
	vlan := func() uint16 { return m.vlans[m.rng.IntN(len(m.vlans))] }
	if m.rng.IntN(2) == 0 {
		return Port{Access: Access{VLANID: vlan()}}
	}
	p := Port{Mode: ModeTrunk, Trunk: Trunk{DefaultVLAN: true, NativeVLANEnabled: m.rng.IntN(2) == 0, NativeVLAN: vlan()}}
	for _, v := range m.vlans {
		if m.rng.IntN(2) == 0 {
			p.Trunk.Allowed = append(p.Trunk.Allowed, Allowed{v})
		}
	}
	return p
}

// trunks returns random ports, the last of which is a trunk of all VLANs.
func (m *match) trunks() {
	m.vlans = []uint16{1, 10, 63, 64, 4094}
	for range 3 + m.rng.IntN(3) {
		m.ports = append(m.ports, m.port())
	}
	all := Port{Mode: ModeTrunk, Trunk: Trunk{DefaultVLAN: true}}
	for _, v := range m.vlans {
		all.Trunk.Allowed = append(all.Trunk.Allowed, Allowed{v})
	}
	all.Trunk.NativeVLAN = defaultVLAN
	m.ports = append(m.ports, all)
}

func TestFramesGoWhereOpenVSwitchSendsThem(t *testing.T) {
	t.Parallel()
	lab := netns.NewLab(t)
	m := newMatch(t)
	m.trunks()
	hosts := m.others(lab)
	o := startOVS(t, lab.Namespace)
	for i, h := range hosts {
		o.addPort(h.Outer, &m.ports[i])
	}
	o.keepNoFlows()
	m.devices = []*device{newDevice(t, "Open vSwitch", hosts)}
	m.ours()
	for i := range frames() {
		b := pkt.Eth(m.station(), m.destination())
		vlan := append(m.vlans, 0, 7)[m.rng.IntN(len(m.vlans)+2)]
		switch m.rng.IntN(6) {
		case 0, 1:
			b = b.PriorityVLAN(vlan, uint8(m.rng.IntN(8)))
		case 2:
			b = b.PriorityVLAN(vlan, uint8(m.rng.IntN(8))).VLAN(uint16(m.rng.IntN(4096)))
		}
		m.step(m.rng.IntN(len(m.ports)), b.Data(append(binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, 46)...)).Bytes())
		if i%50 == 49 {
			m.compare()
		}
	}
	m.compare()
}
