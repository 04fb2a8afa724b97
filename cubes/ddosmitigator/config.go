// SPDX-License-Identifier: Apache-2.0

package ddosmitigator

// The configuration in Go, and in the form of the program.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sketch"
)

// Config is the decoded configuration, but for the lists, whose entries come one by one.
type Config struct {
	SrcPackets   uint64 `json:"auto-src-packets"`
	SrcSYNs      uint64 `json:"auto-src-syns"`
	SrcBytes     uint64 `json:"auto-src-bytes"`
	DstPackets   uint64 `json:"auto-dst-packets"`
	DstSYNs      uint64 `json:"auto-dst-syns"`
	DstBytes     uint64 `json:"auto-dst-bytes"`
	AutoLifetime uint32 `json:"auto-lifetime"`

	BlacklistSrc []Entry `json:"blacklist-src"`
	BlacklistDst []Entry `json:"blacklist-dst"`
	Allow        []Entry `json:"allow"`
}

// Entry is an entry of a list.
type Entry struct {
	IP       Address `json:"ip"`
	Lifetime uint32  `json:"lifetime"`
}

// Address is the key of an entry, an address or a prefix.
type Address struct{ netip.Prefix }

// UnmarshalText parses an address or a prefix, each in its only form, so that no two entries are about the same.
func (a *Address) UnmarshalText(text []byte) error {
	p, _, err := inet.ParsePrefix("ip", string(text))
	if err != nil {
		return err
	}
	switch {
	case p.Bits() == 0:
		return fmt.Errorf("ip %s: it contains every address: %w", text, cube.ErrInvalid)
	case p.Addr().Is4In6() && p.Bits() >= 96:
		return fmt.Errorf("ip %s: write an IPv4 address as one: %w", text, cube.ErrInvalid)
	}
	is := Address{p}
	if is.String() != string(text) {
		return fmt.Errorf("ip %s: write %s: %w", text, is, cube.ErrInvalid)
	}
	*a = is
	return nil
}

// String returns an address without a length, or a prefix.
func (a Address) String() string {
	if a.IsSingleIP() {
		return a.Addr().String()
	}
	return a.Prefix.String()
}

// The lists, with the numbers of the program.
const (
	source = iota
	destination
	ends
	allow = ends
	lists = 3
)

// listNames are those of the model.
var listNames = [lists]string{"blacklist-src", "blacklist-dst", "allow"}

// prefix is struct ddosmitigator_prefix.
type prefix struct{ Outer, Inner, Length uint64 }

// prefixOf returns the form of a prefix in the program.
func prefixOf(a netip.Prefix) prefix {
	high, low := wordsOf(a.Addr())
	length := uint64(a.Bits() + 128 - a.Addr().BitLen())
	if length <= 64 {
		return prefix{0, high, length}
	}
	return prefix{high, low, length}
}

// wordsOf returns an address of the program: two words in host byte order.
func wordsOf(a netip.Addr) (high, low uint64) {
	b := a.As16()
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

// mapped is the upper part of the lower half of ::ffff:a.b.c.d.
const mapped = 0xffff << 32

// isIPv4 reports whether a prefix is one of IPv4.
func (p prefix) isIPv4() bool { return p.Length > 96 && p.Outer == 0 && p.Inner&^0xffffffff == mapped }

// address returns the model's form.
func (p prefix) address() Address {
	switch {
	case p.isIPv4():
		return Address{netip.PrefixFrom(addrOf(0, p.Inner), int(p.Length)-96)}
	case p.Length <= 64:
		return Address{netip.PrefixFrom(addrOf(p.Inner, 0), int(p.Length))}
	}
	return Address{netip.PrefixFrom(addrOf(p.Outer, p.Inner), int(p.Length))}
}

// addrOf returns an address of the program.
func addrOf(high, low uint64) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], high)
	binary.BigEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b).Unmap()
}

// automatic reports whether addresses are listed automatically.
func (c *Config) automatic() bool {
	return c.SrcPackets|c.SrcSYNs|c.SrcBytes|c.DstPackets|c.DstSYNs|c.DstBytes != 0
}

// constants returns those of the program.
func (c *Config) constants() map[string]any {
	return map[string]any{
		"src_packets": sketch.PerWindow(c.SrcPackets), "src_syns": sketch.PerWindow(c.SrcSYNs), "src_bytes": sketch.PerWindow(c.SrcBytes),
		"dst_packets": sketch.PerWindow(c.DstPackets), "dst_syns": sketch.PerWindow(c.DstSYNs), "dst_bytes": sketch.PerWindow(c.DstBytes),
		"auto_lifetime": uint64(time.Duration(c.AutoLifetime) * time.Second),
	}
}
