// SPDX-License-Identifier: Apache-2.0

package inet

// MAC addresses, alone and with a mask.

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"strings"

	"github.com/polycube/polycube/cube"
)

// MAC is a MAC address as in programs: the first byte in the lowest bits. The upper two bytes are 0.
type MAC uint64

// ParseMAC parses aa:bb:cc:dd:ee:ff.
func ParseMAC(text string) (MAC, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return 0, fmt.Errorf("MAC address %q: %w", text, cube.ErrInvalid)
	}
	return MACOf(mac), nil
}

// MACOf returns the address in the first six bytes of b, in wire order.
func MACOf(b []byte) MAC {
	var word [8]byte
	copy(word[:6], b)
	return MAC(binary.LittleEndian.Uint64(word[:]))
}

// LocalMAC returns a locally administered address for a port of a cube, the same as long as the cube exists.
func LocalMAC(uuid, port string) MAC {
	sum := sha256.Sum256([]byte(uuid + " " + port))
	sum[0] = sum[0]&^1 | 2
	return MACOf(sum[:6])
}

// Bytes returns the six bytes of the address, in wire order.
func (m MAC) Bytes() (b [6]byte) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], uint64(m))
	copy(b[:], word[:])
	return b
}

// Hardware returns the address as a type of package net.
func (m MAC) Hardware() net.HardwareAddr {
	b := m.Bytes()
	return b[:]
}

// String returns the form of the models, in lower case.
func (m MAC) String() string { return m.Hardware().String() }

// UnmarshalText parses the form of the models.
func (m *MAC) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMAC(string(text))
	return err
}

// MarshalText returns the form in models, in lower case.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// MACMatch is an address and the bits of it that are compared: the type `mac-match`.
type MACMatch struct{ Address, Mask [6]byte }

// UnmarshalText parses aa:bb:cc:dd:ee:ff, alone or with a mask after a slash.
func (m *MACMatch) UnmarshalText(text []byte) error {
	address, mask, ok := strings.Cut(string(text), "/")
	if !ok {
		mask = "ff:ff:ff:ff:ff:ff"
	}
	a, err := ParseMAC(address)
	bits, maskErr := ParseMAC(mask)
	if err != nil || maskErr != nil {
		return fmt.Errorf("MAC address %q: %w", text, cube.ErrInvalid)
	}
	*m = MACMatch{a.Bytes(), bits.Bytes()}
	return nil
}

// String returns the form of the models, with the mask.
func (m MACMatch) String() string {
	return MACOf(m.Address[:]).String() + "/" + MACOf(m.Mask[:]).String()
}
