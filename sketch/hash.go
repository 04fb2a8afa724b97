// SPDX-License-Identifier: Apache-2.0

package sketch

// The hash of <pcn/hash.h>.

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/polycube/polycube/inet"
)

// Seed is struct pcn_hash_seed: random bits that senders of packets must not know.
type Seed struct{ Word [3]uint64 }

// NewSeed returns a random seed.
func NewSeed() (s Seed) {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	for i := range s.Word {
		s.Word[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return s
}

// Hash is pcn_hash_address.
func (s Seed) Hash(address inet.Address, number uint64) uint64 {
	word := func(at int) uint64 {
		return uint64(binary.NativeEndian.Uint32(address[at:]))<<32 | uint64(binary.NativeEndian.Uint32(address[at+4:]))
	}
	return s.Words(word(0), word(8), number)
}

// Words is pcn_hash_words.
func (s Seed) Words(a, b, c uint64) uint64 {
	return mix(mix(a^s.Word[0]) + mix(b^s.Word[1]) + mix(c^s.Word[2]))
}

// mix is pcn_hash_mix.
func mix(x uint64) uint64 {
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}
