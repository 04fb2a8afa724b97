// SPDX-License-Identifier: Apache-2.0

package inet

// IPv4 and IPv6 addresses and prefixes.

import (
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
)

// Prefix is an address or a prefix, without host bits: the type `ip-match`.
type Prefix struct{ netip.Prefix }

// UnmarshalText parses an address, or a prefix.
func (p *Prefix) UnmarshalText(text []byte) error {
	prefix, _, err := ParsePrefix("address", string(text))
	if err == nil {
		p.Prefix = prefix
	}
	return err
}

// ParsePrefix parses an address without a zone, or a prefix, whose host bits it clears. alone is true for an address
// without a length. what names the value in the error.
func ParsePrefix(what, text string) (p netip.Prefix, alone bool, err error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr, addr.BitLen()), true, nil
	}
	if p, err = netip.ParsePrefix(text); err != nil {
		return netip.Prefix{}, false, fmt.Errorf("%s %q: %w", what, text, cube.ErrInvalid)
	}
	return p.Masked(), false, nil
}
