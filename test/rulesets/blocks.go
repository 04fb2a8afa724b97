// SPDX-License-Identifier: Apache-2.0

package rulesets

import "math/bits"

// Block are the ports that are First under Mask: how peers without ranges match ports. The zero value is all ports.
type Block struct{ First, Mask uint16 }

// Blocks divides a range into the minimum number of blocks; nil is all ports.
func (r *Ports) Blocks() []Block {
	if r == nil {
		return []Block{{}}
	}
	var out []Block
	for first, left := uint32(r.First), uint32(r.Last)-uint32(r.First)+1; left > 0; {
		size := uint32(1) << min(bits.TrailingZeros32(first|1<<16), bits.Len32(left)-1)
		out = append(out, Block{uint16(first), uint16(1<<16 - size)})
		first, left = first+size, left-size
	}
	return out
}
