// SPDX-License-Identifier: Apache-2.0

package rules

// Values of IEs that several rules have.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
)

// maxVolume keeps sums of counts and limits from overflowing. It is more than any device transfers.
const maxVolume = 1 << 60

// number reads an optional IE into a number, if it is there.
func number[T ~uint8 | ~uint16 | ~uint32](g tlv.Group, kind uint16, size int, into *T) (bool, error) {
	i, ok := g.First(kind)
	if !ok {
		return false, nil
	}
	n, err := i.Uint(size)
	if err != nil {
		return false, Incorrect(kind, err)
	}
	*into = T(n)
	return true, nil
}

// required reads a mandatory IE into a number.
func required[T ~uint8 | ~uint16 | ~uint32](g tlv.Group, kind uint16, size int, into *T) error {
	ok, err := number(g, kind, size, into)
	if err == nil && !ok {
		return Missing(kind)
	}
	return err
}

// numbers reads all IEs of a type, each number once, and reports whether there is one.
func numbers(g tlv.Group, kind uint16) ([]uint32, bool, error) {
	var list []uint32
	for _, i := range g {
		if i.Type != kind {
			continue
		}
		n, err := i.Uint(4)
		if err != nil {
			return nil, false, Incorrect(kind, err)
		}
		if !slices.Contains(list, uint32(n)) {
			list = append(list, uint32(n))
		}
	}
	return list, list != nil, nil
}

// instance reads a Network Instance: a name, or labels as DNS encodes them.
func instance(g tlv.Group, into *string) error {
	i, ok := g.First(ie.NetworkInstance)
	if !ok {
		return nil
	}
	if len(i.Value) == 0 || len(i.Value) > 255 {
		return Incorrect(ie.NetworkInstance, fmt.Errorf("%d bytes", len(i.Value)))
	}
	*into = name(i.Value)
	return nil
}

// name returns the text of DNS labels if the bytes are exactly that, else the bytes themselves.
func name(b []byte) string {
	var text []byte
	for rest := b; len(rest) > 0; {
		n := int(rest[0])
		if n == 0 && len(rest) == 1 && len(text) > 0 {
			break
		}
		if n == 0 || n > 63 || len(rest) < 1+n {
			return string(b)
		}
		if len(text) > 0 {
			text = append(text, '.')
		}
		text = append(text, rest[1:1+n]...)
		rest = rest[1+n:]
	}
	return string(text)
}

// dscp returns that of a ToS or traffic class and its mask. ECN bits cannot be matched or set.
func dscp(class, mask byte) (*uint8, error) {
	switch mask {
	case 0:
		return nil, nil
	case 0xfc:
		is := class >> 2
		return &is, nil
	}
	return nil, fmt.Errorf("mask %#x, supported is 0xfc", mask)
}

// tunnel reads an Outer Header Creation.
func tunnel(i tlv.IE) (Tunnel, error) {
	const gtp4, gtp6 = 0x0100, 0x0200
	n, err := i.Uint(2)
	if err != nil {
		return Tunnel{}, Incorrect(i.Type, err)
	}
	if n&(gtp4|gtp6) == 0 || n&^(gtp4|gtp6) != 0 {
		return Tunnel{}, unsupported(i.Type, fmt.Sprintf("outer header %#04x", n))
	}
	want := 6
	if n&gtp4 != 0 {
		want += 4
	}
	if n&gtp6 != 0 {
		want += 16
	}
	if len(i.Value) < want {
		return Tunnel{}, Incorrect(i.Type, fmt.Errorf("%d bytes of %d", len(i.Value), want))
	}
	is := Tunnel{TEID: binary.BigEndian.Uint32(i.Value[2:])}
	if n&gtp4 != 0 {
		is.Peer, _ = netip.AddrFromSlice(i.Value[6:10])
	} else {
		is.Peer, _ = netip.AddrFromSlice(i.Value[6:22])
	}
	if p := is.Peer; p.IsUnspecified() || p.IsMulticast() || p.Is4In6() || is.TEID == 0 {
		return Tunnel{}, Incorrect(i.Type, fmt.Errorf("tunnel %d of %v", is.TEID, p))
	}
	return is, nil
}

// volume reads a Volume Threshold or a Volume Quota: both have the same form.
func volume(i tlv.IE) (pdusession.Volume, error) {
	f, err := ie.ParseVolumeThresholdFields(i.Value)
	if err != nil {
		return pdusession.Volume{}, Incorrect(i.Type, err)
	}
	if f.Flags&7 == 0 {
		return pdusession.Volume{}, Incorrect(i.Type, fmt.Errorf("no volume"))
	}
	is := func(has bool, n uint64) uint64 {
		if !has {
			return 0
		}
		return min(max(n, 1), maxVolume) // 0 is no limit to the data plane
	}
	return pdusession.Volume{Total: is(f.HasTOVOL(), f.TotalVolume), Up: is(f.HasULVOL(), f.UplinkVolume), Down: is(f.HasDLVOL(), f.DownlinkVolume)}, nil
}

// refuseAny refuses a group with an IE that is not supported.
func refuseAny(g tlv.Group, kinds []uint16) error {
	if kind, ok := g.Any(kinds); ok {
		return unsupported(kind, "")
	}
	return nil
}
