// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"
)

// FuzzSet derives rules, edits and keys from bytes. There are few values, so that rules overlap.
func FuzzSet(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03some rules, and packets for them"), uint64(1))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), uint64(2))
	f.Add(make([]byte, 600), uint64(3))
	f.Add(make([]byte, 600), uint64(60))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := newLab(t)
		if seed%2 == 0 {
			l.set.rebuildFrom = 0
		}
		sets := 0 // that a rule may match: rules may match no more than 32, sources and destinations counted apart
		if seed%3 != 0 {
			sets = 1 + int(seed/3%16)
		}
		next := func() Match { return fuzzedWithout(&data, rng, sets) }
		l.apply(l.edits(rng, len(data)/4%400, next))
		for range 6 {
			l.apply(l.edits(rng, 1+rng.IntN(30), next))
			if err := l.tight(); err != nil {
				t.Fatal(err)
			}
			for range 40 {
				k := keyIn(l, rng)
				l.check(&k)
			}
		}
		if err := l.set.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// fuzzedWithout is a match that may have exceptions.
func fuzzedWithout(data *[]byte, rng *rand.Rand, sets int) Match {
	m := fuzzed(data, rng)
	m.inSets(rng, sets)
	for rng.IntN(3) == 0 {
		e := fuzzed(data, rng)
		e.inSets(rng, sets)
		was := m
		if err := m.Except(e); err != nil && m != was {
			panic("an exception that is refused changes the rule")
		}
	}
	return m
}

// fuzzed is a match of some bytes: which words are looked at, and how.
func fuzzed(data *[]byte, rng *rand.Rand) Match {
	var b [4]byte
	n := copy(b[:], *data)
	*data = (*data)[n:]
	bits := binary.LittleEndian.Uint32(b[:]) ^ rng.Uint32()&rng.Uint32()
	var m Match
	for w := range words {
		if bits>>w&3 != 3 {
			continue
		}
		mask := ^uint64(0) << (bits >> 5 & 63) // of a prefix
		if bits>>29&1 == 1 {
			mask = rng.Uint64() // of bits anywhere
		}
		switch w {
		case wordPorts:
			mask &= 0xffffff00
		case wordLink:
			mask &^= kindICMP // which has no ports
		case wordMark:
			mask &= 1<<usedShift - 1
		}
		m.set(w, uint64(bits&7)<<60|uint64(bits>>3&7)<<16|rng.Uint64N(4), mask)
		m.reading(w)
	}
	for i, p := range []*ports{&m.source, &m.destination} {
		if bits>>(20+i)&1 == 1 {
			first := uint16(rng.IntN(8)) << 13
			if err := m.ports(p, first, first+uint16(rng.IntN(0x2000))); err != nil {
				panic(err)
			}
		}
	}
	return m
}

// inSets makes some rules match some sets of addresses.
func (m *Match) inSets(rng *rand.Rand, sets int) {
	for _, set := range []func(string) error{m.SourceSet, m.DestinationSet} {
		if sets > 0 && rng.IntN(4) == 0 {
			if err := set(strconv.Itoa(rng.IntN(sets))); err != nil {
				panic(err)
			}
		}
	}
}

// reading requires the headers from which a word is read, as all matches do.
func (m *Match) reading(w int) {
	switch w {
	case wordSource, wordDestination, wordSourceLow, wordDestinationLow:
		m.set(wordLink, kindIP, kindIP)
	case wordPorts:
		m.set(wordLink, kindIP|kindPorts, kindIP|kindPorts)
	}
}

// keyIn is a key that a rule matches, or nearly, or none.
func keyIn(l *lab, rng *rand.Rand) Key {
	var k Key
	for w := range k {
		k[w] = rng.Uint64()
	}
	for _, r := range l.rules { // in any order
		for w := range k {
			k[w] = k[w]&^r.mask[w] | r.value[w]
		}
		for e := range r.exceptions {
			for w := range k {
				k[w] = k[w]&^e.mask[w] | e.value[w]
			}
			if rng.IntN(2) == 0 {
				break
			}
		}
		for i, p := range []ports{r.source, r.destination} {
			if p.set {
				at := []uint16{p.first, p.last, p.first - 1, p.last + 1}[rng.IntN(4)]
				k[wordPorts] = k[wordPorts]&^(0xffff<<(48-16*i)) | uint64(at)<<(48-16*i)
			}
		}
		if rng.IntN(3) > 0 {
			break
		}
	}
	if rng.IntN(3) == 0 {
		k[rng.IntN(words)] ^= 1 << rng.IntN(64)
	}
	k[wordMark] &= 1<<usedShift - 1
	return k
}
