// SPDX-License-Identifier: Apache-2.0

package efw

// The host's own addresses, which no other host sends from: a table, and a bitmap that rules out nearly all other addresses without a
// lookup.

import (
	"encoding/binary"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/hostaddr"
	"github.com/polycube/polycube/inet"
)

// ownEntry is struct efw_own.
type ownEntry struct{ Bits [4]uint64 }

// add adds an address: EFW_OWN_BIT.
func (o *ownEntry) add(a inet.Address) {
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(a[4*i:]) }
	bit := (word(0) ^ word(1) ^ word(2) ^ word(3)) * 0x9e3779b1 >> 24
	o.Bits[bit>>6] |= 1 << (bit & 63)
}

// ownAddresses are what packets see.
type ownAddresses struct {
	table table.Table[inet.Address, uint32]
	bits  table.Table[uint32, ownEntry]
	is    ownEntry
}

func newOwnAddresses(env cube.Env) *ownAddresses {
	return &ownAddresses{table: table.New[inet.Address, uint32](env, "addresses"), bits: table.New[uint32, ownEntry](env, "own")}
}

// take replaces the addresses. At all times, the bit of each address in the table is set.
func (o *ownAddresses) take(all []hostaddr.Address) error {
	types := hostaddr.Types(all)
	var now ownEntry
	for a := range types {
		now.add(a)
	}
	both := now
	for i, bits := range o.is.Bits {
		both.Bits[i] |= bits
	}
	o.is = both
	if err := o.bits.Set(0, both); err != nil {
		return err
	}
	if _, err := table.Replace(o.table, types).Do(); err != nil {
		return err
	}
	o.is = now
	return o.bits.Set(0, now)
}
