// SPDX-License-Identifier: Apache-2.0

package shadow

// A route in the kernel's format: struct rtmsg and its attributes. They are not parsed with the library's types, which
// take ten times as long; there may be a million routes.

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// routeKey is the key of a route in a table.
type routeKey struct {
	prefix netip.Prefix
	metric uint32
}

func (k routeKey) compare(o routeKey) int {
	return cmp.Or(k.prefix.Compare(o.prefix), cmp.Compare(k.metric, o.metric))
}

// route is the action of a route.
type route struct {
	kind     uint8 // RTN_...
	protocol uint8 // RTPROT_...
	hops     []hop
}

type hop struct {
	gateway netip.Addr
	index   int32
	weight  uint16
	dead    bool
}

func (r route) equal(o route) bool {
	return r.kind == o.kind && r.protocol == o.protocol && slices.Equal(r.hops, o.hops)
}

// attributes calls fn for each attribute of a message; false for a malformed one.
func attributes(b []byte, fn func(kind uint16, value []byte)) bool {
	for len(b) >= unix.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofRtAttr || n > len(b) {
			return false
		}
		fn(binary.NativeEndian.Uint16(b[2:])&^unix.NLA_F_NESTED, b[unix.SizeofRtAttr:n])
		b = b[min(len(b), (n+3)&^3):]
	}
	return true
}

func word(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

// parseRoute parses a message; false for a route that is not reported to cubes.
func parseRoute(b []byte) (key routeKey, r route, ok bool) {
	if len(b) < unix.SizeofRtMsg {
		return key, r, false
	}
	m := *(*unix.RtMsg)(unsafe.Pointer(&b[0]))
	var dst netip.Addr
	table := uint32(m.Table)
	one := hop{weight: 1, dead: m.Flags&unix.RTNH_F_DEAD != 0}
	fits := attributes(b[unix.SizeofRtMsg:], func(kind uint16, v []byte) {
		switch kind {
		case unix.RTA_DST:
			dst, _ = netip.AddrFromSlice(v)
		case unix.RTA_PRIORITY:
			key.metric = word(v)
		case unix.RTA_TABLE:
			table = word(v)
		case unix.RTA_OIF:
			one.index = int32(word(v))
		case unix.RTA_GATEWAY:
			one.gateway, _ = netip.AddrFromSlice(v)
		case unix.RTA_VIA:
			one.gateway = via(v)
		case unix.RTA_MULTIPATH:
			r.hops = parseHops(v)
		}
	})
	if !dst.IsValid() {
		dst = netip.IPv4Unspecified()
		if m.Family == unix.AF_INET6 {
			dst = netip.IPv6Unspecified()
		}
	}
	key.prefix = netip.PrefixFrom(dst, int(m.Dst_len))
	r.kind, r.protocol = m.Type, m.Protocol
	if len(r.hops) == 0 && one.index != 0 && r.kind == unix.RTN_UNICAST {
		r.hops = []hop{one}
	}
	slices.SortFunc(r.hops, func(a, b hop) int { return cmp.Or(cmp.Compare(a.index, b.index), a.gateway.Compare(b.gateway)) })
	return key, r, fits && key.prefix.IsValid() && wanted(m, table, dst)
}

// wanted excludes routes that are not reported to cubes: other tables, routes that the kernel derived from addresses,
// internal copies of routes, routes for a type of service, and the standard IPv6 routes of each link.
func wanted(m unix.RtMsg, table uint32, dst netip.Addr) bool {
	switch m.Type {
	case unix.RTN_UNICAST, unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT:
	default:
		return false
	}
	return table == unix.RT_TABLE_MAIN && (m.Family == unix.AF_INET || m.Family == unix.AF_INET6) &&
		m.Protocol != unix.RTPROT_KERNEL && m.Flags&unix.RTM_F_CLONED == 0 && m.Tos == 0 &&
		!(dst.Is6() && (dst.IsLinkLocalUnicast() || dst.IsMulticast()))
}

// via parses struct rtvia: a gateway of the other family.
func via(b []byte) netip.Addr {
	if len(b) < 2 {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(b[2:])
	return a
}

// parseHops parses a series of struct rtnexthop.
func parseHops(b []byte) []hop {
	var out []hop
	for len(b) >= unix.SizeofRtNexthop {
		n := *(*unix.RtNexthop)(unsafe.Pointer(&b[0]))
		if int(n.Len) < unix.SizeofRtNexthop || int(n.Len) > len(b) {
			break
		}
		h := hop{index: n.Ifindex, weight: uint16(n.Hops) + 1, dead: n.Flags&unix.RTNH_F_DEAD != 0}
		attributes(b[unix.SizeofRtNexthop:n.Len], func(kind uint16, v []byte) {
			switch kind {
			case unix.RTA_GATEWAY:
				h.gateway, _ = netip.AddrFromSlice(v)
			case unix.RTA_VIA:
				h.gateway = via(v)
			}
		})
		out = append(out, h)
		b = b[min(len(b), (int(n.Len)+3)&^3):]
	}
	return out
}

// protocols are the names used by `ip route`, from its file rt_protos.
var protocols = map[uint8]string{
	unix.RTPROT_REDIRECT: "redirect", unix.RTPROT_BOOT: "boot", unix.RTPROT_STATIC: "static", unix.RTPROT_GATED: "gated",
	unix.RTPROT_RA: "ra", unix.RTPROT_MRT: "mrt", unix.RTPROT_ZEBRA: "zebra", unix.RTPROT_BIRD: "bird",
	unix.RTPROT_DNROUTED: "dnrouted", unix.RTPROT_XORP: "xorp", unix.RTPROT_NTK: "ntk", unix.RTPROT_DHCP: "dhcp",
	unix.RTPROT_KEEPALIVED: "keepalived", unix.RTPROT_BABEL: "babel", unix.RTPROT_BGP: "bgp", unix.RTPROT_ISIS: "isis",
	unix.RTPROT_OSPF: "ospf", unix.RTPROT_RIP: "rip", unix.RTPROT_EIGRP: "eigrp",
}

// translate is a route as reported to cubes; false if it leads to no port.
func (w *routeWatch) translate(key routeKey, r route) (cube.Route, bool) {
	out := cube.Route{Prefix: key.prefix, Metric: key.metric, Protocol: protocols[r.protocol]}
	if out.Protocol == "" {
		out.Protocol = strconv.Itoa(int(r.protocol))
	}
	switch r.kind {
	case unix.RTN_BLACKHOLE:
		out.Kind = cube.RouteBlackhole
		return out, true
	case unix.RTN_UNREACHABLE:
		out.Kind = cube.RouteUnreachable
		return out, true
	case unix.RTN_PROHIBIT:
		out.Kind = cube.RouteProhibit
		return out, true
	}
	for _, h := range r.hops {
		if port, ok := w.ports[int(h.index)]; ok && !h.dead {
			out.NextHops = append(out.NextHops, cube.NextHop{Port: port, Gateway: h.gateway, Weight: int(h.weight)})
		}
	}
	return out, len(out.NextHops) > 0
}
