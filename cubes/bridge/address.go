// SPDX-License-Identifier: Apache-2.0

package bridge

// Addresses, and sets of VLANs, as the fast path keeps them.

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Address is a MAC address as the fast path keeps it: the first byte in the lowest bits.
type Address uint64

// parseAddress reads the form of the model, aa:bb:cc:dd:ee:ff.
func parseAddress(text string) (Address, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		return 0, fmt.Errorf("MAC address %q: %w", text, cube.ErrInvalid)
	}
	return Address(binary.LittleEndian.Uint64(append(mac, 0, 0))), nil
}

// UnmarshalText reads the form of the model.
func (a *Address) UnmarshalText(text []byte) (err error) {
	*a, err = parseAddress(string(text))
	return err
}

// MarshalText writes the form of the model, in lower case.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// String is the form of the model, in lower case.
func (a Address) String() string { return a.hardware().String() }

func (a Address) hardware() net.HardwareAddr {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(a))
	return b[:6]
}

// randomAddress makes up an address of a single station, marked as not given by a manufacturer.
func randomAddress() Address {
	var b [8]byte
	rand.Read(b[:6]) // never fails
	b[0] = b[0]&^3 | 2
	return Address(binary.LittleEndian.Uint64(b[:]))
}

// Key is an address in a VLAN: the address, and the VLAN above it.
type Key uint64

const vlanShift = 48

func keyOf(vlan uint16, a Address) Key { return Key(vlan)<<vlanShift | Key(a) }

func (k Key) vlan() uint16     { return uint16(k >> vlanShift) }
func (k Key) address() Address { return Address(k & (1<<vlanShift - 1)) }

// String is how errors name it.
func (k Key) String() string { return fmt.Sprintf("%d %s", k.vlan(), k.address()) }

// compare orders keys as lists show them.
func (k Key) compare(l Key) int {
	if k.vlan() != l.vlan() {
		return int(k.vlan()) - int(l.vlan())
	}
	return strings.Compare(k.address().String(), l.address().String())
}

// vlanSet has a bit for each VLAN.
type vlanSet [64]uint64

func (s *vlanSet) add(vlan uint16)      { s[vlan/64] |= 1 << (vlan % 64) }
func (s *vlanSet) has(vlan uint16) bool { return s[vlan/64]>>(vlan%64)&1 != 0 }

// list returns the VLANs of the set in ascending order.
func (s *vlanSet) list() []uint16 {
	var out []uint16
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			out = append(out, uint16(i*64+bits.TrailingZeros64(word)))
		}
	}
	return out
}
