// SPDX-License-Identifier: Apache-2.0

package language

import (
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// number reads an unsigned number as iptables does: decimal, 0x hexadecimal or 0 octal.
func number(text string, limit uint64) (uint64, bool) {
	base := 10
	switch {
	case strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X"):
		text, base = text[2:], 16
	case len(text) > 1 && text[0] == '0':
		text, base = text[1:], 8
	}
	n, err := strconv.ParseUint(text, base, 64)
	return n, err == nil && n <= limit
}

// decimal reads an unsigned decimal number.
func decimal(text string, limit uint64) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n <= limit
}

// numberOf reads the number of an option, at least low and at most high.
func (v value) numberOf(low, high uint64) (uint64, error) {
	n, ok := number(v.text, high)
	if !ok || n < low {
		return 0, v.bad(fmt.Sprintf("it is a number from %d to %d", low, high))
	}
	return n, nil
}

// port reads a port or the name of a service.
func port(text string) (uint16, error) {
	if n, ok := decimal(text, 65535); ok {
		return uint16(n), nil
	}
	if text != "" && (text[0] < '0' || text[0] > '9') && text[0] != '+' && text[0] != '-' {
		for _, network := range []string{"tcp", "udp"} {
			if n, err := net.LookupPort(network, text); err == nil {
				return uint16(n), nil
			}
		}
	}
	return 0, fmt.Errorf("invalid port or service %q", text)
}

// ports reads PORT or FIRST<separator>LAST. With open, an end that is left out is the first or last port.
func ports(text, separator string, open bool) (r PortRange, err error) {
	first, last, ranged := strings.Cut(text, separator)
	if r.First, err = endOf(first, 0, ranged && open); err != nil {
		return r, err
	}
	if !ranged {
		r.Last = r.First
		return r, nil
	}
	if r.Last, err = endOf(last, 65535, open); err != nil {
		return r, err
	}
	if r.First > r.Last {
		return r, fmt.Errorf("invalid port range %q: the first port is above the last", text)
	}
	return r, nil
}

func endOf(text string, otherwise uint16, open bool) (uint16, error) {
	if text == "" && open {
		return otherwise, nil
	}
	return port(text)
}

// text returns the range with a separator.
func (r PortRange) text(separator string) string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return strconv.Itoa(int(r.First)) + separator + strconv.Itoa(int(r.Last))
}

// portOption is an option with a port or a range of ports.
func portOption(to *PortRange, names ...string) option {
	return option{names: names, arity: oneValue, not: true, set: func(v value) (err error) {
		if *to, err = ports(v.text, ":", true); err != nil {
			return err
		}
		if to.Not = v.not; v.not && to.Any() {
			return fmt.Errorf("! %s %s never matches", v.option, v.text)
		}
		return nil
	}}
}

// portText prints an option with a range of ports.
func portText(name string, r PortRange) string {
	return when(!r.Any(), bang(r.Not, name+" "+r.text(":")))
}

// maskBits returns the length of a mask that is a prefix.
func maskBits(mask netip.Addr) (int, bool) {
	n, ended := 0, false
	for _, b := range mask.AsSlice() {
		ones := bits.LeadingZeros8(^b)
		if b<<ones != 0 || ended && b != 0 {
			return 0, false
		}
		n, ended = n+ones, ended || ones < 8
	}
	return n, true
}

// maskOf returns the mask of a length.
func maskOf(family Family, length int) netip.Addr {
	raw := make([]byte, family.bits()/8)
	for i := range raw {
		ones := min(max(length-8*i, 0), 8)
		raw[i] = ^byte(0xff >> ones)
	}
	mask, _ := netip.AddrFromSlice(raw)
	return mask
}

func (f Family) bits() int {
	if f == IPv6 {
		return 128
	}
	return 32
}

// program is the name of the program of the family.
func (f Family) program() string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// addr reads an address of the family. An IPv4 address may lack its last numbers, which are then 0.
func (f Family) addr(text string, short bool) (netip.Addr, error) {
	full := text
	if n := strings.Count(text, "."); f == IPv4 && short && text != "" && n < 3 {
		full += strings.Repeat(".0", 3-n)
	}
	a, err := netip.ParseAddr(full)
	if err != nil || a.Zone() != "" || a.Is4() != (f == IPv4) {
		return a, fmt.Errorf("bad %s address %q: host names are not resolved", f, text)
	}
	return a, nil
}

// String returns IPv4 or IPv6.
func (f Family) String() string { return "IPv" + strconv.Itoa(int(f)) }

// address reads ADDRESS, ADDRESS/LENGTH or ADDRESS/MASK.
func (f Family) address(text string) (a Address, err error) {
	host, length, masked := strings.Cut(text, "/")
	if a.Addr, err = f.addr(host, true); err != nil {
		return a, err
	}
	if a.Mask = maskOf(f, f.bits()); masked {
		if a.Mask, err = f.mask(length); err != nil {
			return a, err
		}
	}
	raw, mask := a.Addr.AsSlice(), a.Mask.AsSlice()
	for i := range raw {
		raw[i] &= mask[i]
	}
	a.Addr, _ = netip.AddrFromSlice(raw)
	if a.Mask.IsUnspecified() {
		return Address{}, nil
	}
	return a, nil
}

func (f Family) mask(text string) (netip.Addr, error) {
	if n, ok := decimal(text, uint64(f.bits())); ok {
		return maskOf(f, int(n)), nil
	}
	mask, err := f.addr(text, false)
	if err != nil {
		return mask, fmt.Errorf("invalid mask %q", text)
	}
	return mask, nil
}

// String returns ADDRESS/LENGTH, or ADDRESS/MASK if the mask is no prefix; nothing for any address.
func (a Address) String() string {
	if a.Any() {
		return ""
	}
	if p, ok := a.Prefix(); ok {
		return addrText(a.Addr) + "/" + strconv.Itoa(p.Bits())
	}
	return addrText(a.Addr) + "/" + addrText(a.Mask)
}

// addrText prints an address as inet_ntop does, which differs from netip in IPv4-compatible addresses alone.
func addrText(a netip.Addr) string {
	if !a.Is6() {
		return a.String()
	}
	raw := a.As16()
	if [12]byte(raw[:12]) == [12]byte{} && (raw[12] != 0 || raw[13] != 0) {
		return "::" + netip.AddrFrom4([4]byte(raw[12:])).String()
	}
	return a.String()
}

// quoted prints text as iptables does: bare if it has only letters, digits, - and _, else in quotes.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`).Replace(text) + `"`
}

// line refuses text that would not fit on a line of the save format.
func (v value) line(limit int) (string, error) {
	if strings.ContainsAny(v.text, "\n\r\x00") {
		return "", v.bad("it has a line break")
	}
	if len(v.text) > limit {
		return "", v.bad(fmt.Sprintf("it is longer than %d bytes", limit))
	}
	return v.text, nil
}
