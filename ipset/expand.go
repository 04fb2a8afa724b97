// SPDX-License-Identifier: Apache-2.0

package ipset

// Elements that one command names by ranges.

import (
	"fmt"
	"iter"
	"math/bits"
	"net/netip"
)

// maxExpanded is how many elements a command may name.
const maxExpanded = 1 << 20

// Expand returns the elements that a range consists of, each with one address, prefix and port.
func (h Header) Expand(e Element) (out []Element, err error) {
	one := []Element{e}
	kinds := types[h.Type]
	switch kinds[0] {
	case "ip":
		one, err = addressesOf(e)
	case "net":
		if !e.Net.IsValid() {
			one = prefixesOf(e)
		}
	}
	if err != nil {
		return nil, err
	}
	if e.FirstPort == e.LastPort {
		return one, nil
	}
	if n := len(one) * (int(e.LastPort-e.FirstPort) + 1); n > maxExpanded {
		return nil, fmt.Errorf("the range has %d elements, and may have %d", n, maxExpanded)
	}
	for _, is := range one {
		for port := uint32(e.FirstPort); port <= uint32(e.LastPort); port++ {
			is.FirstPort, is.LastPort = uint16(port), uint16(port)
			out = append(out, is)
		}
	}
	return out, nil
}

// addressesOf returns an element for each address of a range.
func addressesOf(e Element) (out []Element, err error) {
	first, last := e.First, e.Last
	for a := first; ; a = a.Next() {
		if len(out) == maxExpanded {
			return nil, fmt.Errorf("the range %s-%s has more than %d addresses", first, last, maxExpanded)
		}
		e.First, e.Last = a, a
		out = append(out, e)
		if a == last {
			return out, nil
		}
	}
}

// prefixesOf returns an element for each of the prefixes that a range consists of.
func prefixesOf(e Element) (out []Element) {
	for p := range prefixes(e.First, e.Last) {
		is := e
		is.First, is.Last, is.Net = netip.Addr{}, netip.Addr{}, p
		out = append(out, is)
	}
	return out
}

// prefixes are the fewest prefixes that together are a range.
func prefixes(first, last netip.Addr) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		for a := first; a.IsValid() && !last.Less(a); {
			length := max(1, a.BitLen()-zeros(a)) // no element has a prefix of 0 bits
			p := netip.PrefixFrom(a, length)
			for length < a.BitLen() && last.Less(lastOf(p)) {
				length++
				p = netip.PrefixFrom(a, length)
			}
			if !yield(p) {
				return
			}
			a = lastOf(p).Next()
		}
	}
}

// zeros is how many of the last bits of an address are 0.
func zeros(a netip.Addr) (n int) {
	raw := a.AsSlice()
	for i := len(raw) - 1; i >= 0; i-- {
		n += bits.TrailingZeros8(raw[i])
		if raw[i] != 0 {
			break
		}
	}
	return n
}
