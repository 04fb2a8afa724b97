// SPDX-License-Identifier: Apache-2.0

package bridge

// Addresses and sets of VLANs, in the layout of the fast path.

import (
	"crypto/rand"
	"fmt"
	"math/bits"
	"net"
	"strings"

	"github.com/polycube/polycube/inet"
)

// randomAddress returns a random locally administered unicast address.
func randomAddress() inet.MAC {
	mac := make(net.HardwareAddr, 6)
	rand.Read(mac) // never fails
	mac[0] = mac[0]&^3 | 2
	return inet.MACOf(mac)
}

// Key is an address in a VLAN: the address, and the VLAN in the upper bits.
type Key uint64

const vlanShift = 48

func keyOf(vlan uint16, a inet.MAC) Key { return Key(vlan)<<vlanShift | Key(a) }

func (k Key) vlan() uint16      { return uint16(k >> vlanShift) }
func (k Key) address() inet.MAC { return inet.MAC(k & (1<<vlanShift - 1)) }

// String is the form used in errors.
func (k Key) String() string { return fmt.Sprintf("%d %s", k.vlan(), k.address()) }

// compare orders keys as lists are shown.
func (k Key) compare(l Key) int {
	if k.vlan() != l.vlan() {
		return int(k.vlan()) - int(l.vlan())
	}
	return strings.Compare(k.address().String(), l.address().String())
}

// vlanSet has a bit per VLAN.
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
