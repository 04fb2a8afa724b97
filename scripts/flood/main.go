// SPDX-License-Identifier: Apache-2.0

// Flood sends small UDP datagrams out of a netdev as fast as it can, from one source or from random ones, and prints how many:
// for demonstrations between network namespaces of one machine.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	from := flag.String("from", "random", "source address, or random for another one in 100.64.0.0/10 in each datagram")
	to := flag.String("to", "", "destination address")
	mac := flag.String("mac", "", "MAC address that frames are sent to")
	duration := flag.Duration("for", time.Second, "how long")
	flag.Parse()
	n, err := flood(flag.Arg(0), *from, *to, *mac, *duration)
	if err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
	fmt.Println(n)
}

func flood(netdev, from, to, mac string, duration time.Duration) (sent int, err error) {
	frame, err := frameTo(to, mac)
	if err != nil {
		return 0, err
	}
	source := func() [4]byte { // random, but nobody has to be unable to guess it
		return [4]byte{100, 64 | byte(rand.IntN(64)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))} //nolint:gosec // see above
	}
	if from != "random" {
		addr, err := netip.ParseAddr(from)
		if err != nil || !addr.Is4() {
			return 0, fmt.Errorf("source %q: not an IPv4 address", from)
		}
		source = addr.As4
	}
	dev, err := net.InterfaceByName(netdev)
	if err != nil {
		return 0, fmt.Errorf("netdev %s: %w", netdev, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open a packet socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing is buffered
	link := &unix.SockaddrLinklayer{Ifindex: dev.Index}
	copy(frame[6:], dev.HardwareAddr)
	for end := time.Now().Add(duration); time.Now().Before(end); {
		for range 64 {
			address := source()
			copy(frame[26:], address[:])
			sum(frame[14:34])
			switch err := unix.Sendto(fd, frame, 0, link); err {
			case nil:
				sent++
			case unix.ENOBUFS, unix.EAGAIN: // the netdev is busy
			default:
				return sent, fmt.Errorf("send to %s: %w", netdev, err)
			}
		}
	}
	return sent, nil
}

// frameTo is a datagram to the port discard (9), with room for its source.
func frameTo(to, mac string) ([]byte, error) {
	addr, err := netip.ParseAddr(to)
	if err != nil || !addr.Is4() {
		return nil, fmt.Errorf("destination %q: not an IPv4 address", to)
	}
	station, err := net.ParseMAC(mac)
	if err != nil {
		return nil, fmt.Errorf("MAC address %q: %w", mac, err)
	}
	frame := append(station, make([]byte, 54)...)
	copy(frame[12:], []byte{0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17})
	copy(frame[30:], addr.AsSlice())
	copy(frame[34:], []byte{0x30, 0x39, 0, 9, 0, 26}) // no checksum, as RFC 768 allows
	return frame, nil
}

// sum writes the checksum of an IPv4 header.
func sum(header []byte) {
	header[10], header[11] = 0, 0
	var n uint32
	for i := 0; i < len(header); i += 2 {
		n += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	n = n>>16 + n&0xffff
	binary.BigEndian.PutUint16(header[10:], ^uint16(n+n>>16))
}
