// SPDX-License-Identifier: Apache-2.0

package balancers

// What arrives behind a balancer.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/polycube/polycube/test/pkt"
)

var errFrame = errors.New("not what a balancer sends")

// wrong is an error that names what is wrong.
func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
}

// ip is the IPv4 packet of a frame, or the first bytes of it, with its addresses.
func ip(frame []byte) (packet []byte, from, to netip.Addr, err error) {
	packet = frame[14:]
	if packet[0] != 0x45 || pkt.Sum(packet[:20]) != 0xffff {
		return nil, from, to, wrong("no IPv4 header, or one with a wrong checksum")
	}
	return packet, netip.AddrFrom4([4]byte(packet[12:])), netip.AddrFrom4([4]byte(packet[16:])), nil
}

// within is whether an address is one of n behind a first one.
func within(a, first netip.Addr, n int) bool {
	return !a.Less(first) && a.Less(after(first, n))
}

// toMAC is for frames of which only the MAC addresses have changed.
func (l load) toMAC(frame []byte) (string, error) {
	_, from, to, err := ip(frame)
	if err != nil {
		return "", err
	}
	if !within(to, firstService, l.services) || from.Less(firstClient) {
		return "", wrong("from %s to %s", from, to)
	}
	if [4]byte(frame) != [4]byte(l.mac(0)) || int(binary.BigEndian.Uint16(frame[4:])) >= l.servers {
		return "", wrong("to the MAC address %s", net.HardwareAddr(frame[:6]))
	}
	return string(frame[:6]), nil
}

// toTunnel is for packets in IP to a server.
func (l load) toTunnel(frame []byte) (string, error) {
	outer, _, to, err := ip(frame)
	if err != nil {
		return "", err
	}
	if outer[9] != 4 || !within(to, firstServer, l.servers) {
		return "", wrong("protocol %d to %s", outer[9], to)
	}
	if _, _, service, err := ip(frame[20:]); err != nil || !within(service, firstService, l.services) {
		return "", errors.Join(err, wrong("inside, to %s", service))
	}
	return to.String(), nil
}

// toServer is for packets whose destination has become that of a server.
func (l load) toServer(frame []byte) (string, error) {
	return l.toOneOf(frame, l.servers)
}

// toEndpoint is the same where each service has its own servers.
func (l load) toEndpoint(frame []byte) (string, error) {
	return l.toOneOf(frame, l.services*l.servers)
}

func (l load) toOneOf(frame []byte, servers int) (string, error) {
	packet, from, to, err := ip(frame)
	if err != nil {
		return "", err
	}
	if !within(to, firstServer, servers) {
		return "", wrong("to %s", to)
	}
	udp := packet[20:]
	if pkt.Sum(pkt.PseudoHeader(from.String(), to.String(), pkt.ProtoUDP, len(udp)), udp) != 0xffff {
		return "", wrong("a wrong checksum of UDP")
	}
	return to.String(), nil
}
