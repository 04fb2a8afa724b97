// SPDX-License-Identifier: Apache-2.0

// Traffic for routers and NATs: many sources, ports and targets.

package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
)

// The networks of a routed wire. The left host is .0.2 of LeftNet, whose sources start at 10.77.1.0, and the right one
// .0.2 of RightNet; the device under test is .0.1 of both.
const (
	LeftNet   = "10.77.0.0/16"
	RightNet  = "10.78.0.0/16"
	LeftHost  = "10.77.0.2"
	RightHost = "10.78.0.2"
	LeftAddr  = "10.77.0.1"
	RightAddr = "10.78.0.1"
)

const firstSource = "10.77.1.0"

// MaxTargets is the maximum number of addresses in rotation.
const MaxTargets = 1 << 16

// Flows of a routed wire: each source uses each of its ports towards each target, so their number is the product.
type Flows struct {
	Sources, Ports int
	Targets        []netip.Addr
	// Source is the required source of datagrams at the sink; the zero value accepts any.
	Source netip.Addr
	// TTL that they have to have there; 0 is any.
	TTL uint8
}

// Count returns the number of flows.
func (f Flows) Count() int { return f.Sources * f.Ports * len(f.Targets) }

// NewRoutedWire creates the two hosts in different networks, with the generator for flows at the left one.
func (r *Rig) NewRoutedWire(f Flows, opts ...netns.Option) (*Wire, error) {
	w, err := r.hosts(LeftHost+"/16", RightHost+"/16", opts...)
	if err != nil {
		return nil, err
	}
	w.frame = Template(FrameSize)
	binary.BigEndian.PutUint16(w.frame[36:], 4097)
	spec, err := bpf.Spec("routed", cube.XDP)
	if err != nil {
		return nil, err
	}
	if err := f.constants(spec, w); err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	if w.objects, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("generator and sink: %w", err)
	}
	r.Cleanup(w.objects.Close)
	keys, values := make([]uint32, len(f.Targets)), make([][4]byte, len(f.Targets))
	for i, t := range f.Targets {
		keys[i], values[i] = uint32(i), t.As4()
	}
	if _, err := w.objects.Maps["targets"].BatchUpdate(keys, values, nil); err != nil {
		return nil, fmt.Errorf("generator: targets: %w", err)
	}
	return w, nil
}

// constants sets the values that are the same in all frames.
func (f Flows) constants(spec *ebpf.CollectionSpec, w *Wire) error {
	var index uint32
	err := w.Left.Do(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err == nil {
			index = uint32(dev.Index)
		}
		return err
	})
	var macs [16]byte
	copy(macs[:], w.Left.OuterMAC)
	copy(macs[6:], w.Left.MAC)
	first := netip.MustParseAddr(firstSource).As4()
	for name, value := range map[string]any{
		"gen_ifindex": index, "gen_sources": uint32(f.Sources), "gen_ports": uint32(f.Ports),
		"gen_targets": uint32(len(f.Targets)), "gen_first": binary.BigEndian.Uint32(first[:]),
		"gen_macs":   [2]uint64{binary.NativeEndian.Uint64(macs[:]), binary.NativeEndian.Uint64(macs[8:])},
		"gen_ip_sum": f.ipSum(w.frame), "gen_udp_sum": f.udpSum(w.frame),
		"sink_ttl": f.TTL, "sink_source": f.source(),
	} {
		err = errors.Join(err, spec.Variables[name].Set(value))
	}
	return err
}

func (f Flows) source() uint32 {
	if !f.Source.IsValid() {
		return 0
	}
	a := f.Source.As4()
	return binary.NativeEndian.Uint32(a[:])
}

// ipSum returns the sum of the words of the IP header, in memory order, without checksum and addresses.
func (Flows) ipSum(frame []byte) uint32 { return words(frame[14:24]) }

// udpSum returns the sum of the data that a UDP checksum covers, without the addresses and the source port.
func (Flows) udpSum(frame []byte) uint32 {
	udp := frame[34:]
	pseudo := []byte{0, 17, udp[4], udp[5]}
	sum := words(pseudo) + words(udp[2:6]) + words(udp[8:])
	return sum>>16 + sum&0xffff // room for the generator's additions
}

func words(b []byte) (sum uint32) {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.NativeEndian.Uint16(b[i:]))
	}
	return sum
}
