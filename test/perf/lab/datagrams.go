// SPDX-License-Identifier: Apache-2.0

// Datagrams of many flows to many services, and what arrives of them.

package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/test/pkt"
)

// Datagrams are UDP flows of clients to services. The clients' addresses follow First, each with PortsOfClient ports, and
// those of the services follow Service; flow i is one to service i modulo their number.
type Datagrams struct {
	First    netip.Addr
	Flows    int
	Service  netip.Addr
	Services int
	Port     uint16
	// Random is whether they are sent in random order.
	Random bool
}

// Packet is the datagram of a flow as an IP packet.
func (d Datagrams) Packet(i int) []byte {
	client, service := d.address(d.First, i/PortsOfClient), d.address(d.Service, i%d.Services)
	return d.packet(client, service, uint16(clientPort+i%PortsOfClient))
}

func (Datagrams) address(first netip.Addr, i int) netip.Addr {
	a := first.As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+uint32(i))
	return netip.AddrFrom4(a)
}

// packet fills a frame of FrameSize.
func (d Datagrams) packet(client, service netip.Addr, port uint16) []byte {
	udp := make([]byte, FrameSize-14-20)
	binary.BigEndian.PutUint16(udp, port)
	binary.BigEndian.PutUint16(udp[2:], d.Port)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	pseudo := pkt.PseudoHeader(client.String(), service.String(), pkt.ProtoUDP, len(udp))
	binary.BigEndian.PutUint16(udp[6:], ^pkt.Sum(pseudo, udp))
	return pkt.IPv4Header{From: client.String(), To: service.String(), Protocol: pkt.ProtoUDP, TTL: 64, Fragment: 0x4000}.Packet(udp)
}

// template is the packet without what differs between flows.
func (d Datagrams) template() []byte {
	ip := d.packet(netip.IPv4Unspecified(), netip.IPv4Unspecified(), 0)
	copy(ip[10:], []byte{0, 0}) // checksums
	copy(ip[26:], []byte{0, 0})
	return ip
}

// fill writes the template to the programs that send flows, or write them for others.
func (d Datagrams) fill(f *Filtered, coll *ebpf.Collection) error {
	ip := d.template()
	if err := putFrames(coll, [][]byte{f.frameOf(ip)}); err != nil {
		return err
	}
	first, service := d.First.As4(), d.Service.As4()
	pseudo := []byte{0, pkt.ProtoUDP, 0, byte(len(ip) - 20)}
	var errs []error
	for name, value := range map[string]uint32{
		"gen_flows": uint32(d.Flows), "gen_first": binary.BigEndian.Uint32(first[:]),
		"gen_service": binary.BigEndian.Uint32(service[:]), "gen_services": uint32(d.Services),
		"gen_ip_sum": half(words(ip[:20])), "gen_l4_sum": half(words(pseudo) + words(ip[20:])),
	} {
		errs = append(errs, coll.Variables[name].Set(value))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("generator: %w", err)
	}
	return nil
}

// Datagrams sends a datagram of each flow in turn, from the left host.
func (f *Filtered) Datagrams(d Datagrams) (*Stream, error) {
	if err := d.fill(f, f.objects); err != nil {
		return nil, err
	}
	err := errors.Join(f.objects.Variables["gen_random"].Set(flag(d.Random)), f.objects.Variables["gen_back"].Set(uint32(0)))
	return streamOf("datagrams", f.objects, f.Left), err
}

// FillDatagrams prepares a harness for programs to run on a datagram of each flow in turn.
func (f *Filtered) FillDatagrams(harness *ebpf.Collection, d Datagrams) error {
	return d.fill(f, harness)
}

// Arrived sends a number of frames, and returns some of those that arrive, cut to FrameSize.
func (f *Filtered) Arrived(s *Stream, n int) (frames [][]byte, err error) {
	kept, keep := f.objects.Maps["kept"], f.objects.Variables["sink_keep"]
	keys, values := make([]uint32, kept.MaxEntries()), make([][FrameSize + 4]byte, kept.MaxEntries())
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := kept.BatchUpdate(keys, values, nil); err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	if err := keep.Set(uint32(1)); err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	_, err = s.Send(n)
	if err := errors.Join(err, keep.Set(uint32(0))); err != nil {
		return nil, fmt.Errorf("sink: %w", err)
	}
	for i := range values {
		if err := kept.Lookup(keys[i], &values[i]); err != nil {
			return nil, fmt.Errorf("sink: %w", err)
		}
		if values[i] != [FrameSize + 4]byte{} {
			frames = append(frames, values[i][:FrameSize])
		}
	}
	return frames, nil
}
