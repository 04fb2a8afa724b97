// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/internal/netdev"
)

// oneBuffer is the longest frame that fits into one buffer at native XDP on most machines: a page without headroom and
// tailroom.
const oneBuffer = 3456

// netdevFindings check a netdev as the peer of a port.
func netdevFindings(m Machine, name string) []Finding {
	f, err := m.Netdev(name)
	if err != nil {
		return one(name, Unfit, err.Error(), "run ip link to list the netdevs")
	}
	kind := kindOf(name, f)
	if kind.Grade == Unfit {
		return []Finding{kind}
	}
	out := []Finding{kind, nativeOf(name, f)}
	if f.MTU > oneBuffer && f.Native && !f.Fragments {
		out = append(out, Finding{name + " MTU", Slower, fmt.Sprintf("%d, and its driver does not support XDP with frames in several buffers", f.MTU),
			fmt.Sprintf("use an MTU of %d or less, or type TC", oneBuffer)})
	}
	if f.LRO {
		out = append(out, Finding{name + " LRO", Slower, "on: polycubed switches it off for XDP, because frames merged by it cannot be forwarded", "ethtool -K " + name + " lro off"})
	}
	if !f.GRO && f.Kind != "veth" && !f.NoEthernet {
		out = append(out, Finding{name + " GRO", Note, "rx-gro is off: TC programs see each segment of a TCP stream instead of superframes", ""})
	}
	return out
}

func kindOf(name string, f netdev.Facts) Finding {
	kind := f.Kind
	if f.Driver != "" && f.Driver != f.Kind {
		kind += " (" + f.Driver + ")"
	}
	switch {
	case f.NoEthernet || f.Kind == "loopback":
		return Finding{name, Unfit, kind + ": a port requires Ethernet frames from outside", "use a TAP or a veth pair"}
	case f.OwnOnly:
		return Finding{name, Note, kind + ": receives only frames to its own address, which is enough for a router but not for a bridge", ""}
	case !f.Up:
		return Finding{name, Note, kind + ", down", "ip link set " + name + " up"}
	}
	return Finding{name, OK, kind + ", up", ""}
}

// nativeOf describes the XDP features.
func nativeOf(name string, f netdev.Facts) Finding {
	what := name + " XDP"
	switch {
	case !f.XDPKnown:
		return Finding{what, Unknown, "the kernel does not report the XDP features of the driver", "Linux 6.3 or newer"}
	case !f.Native:
		return Finding{what, Slower, "its driver does not support XDP: type XDP_DRV is refused, and XDP_SKB is slower than TC", "type TC"}
	}
	can := []string{"native"}
	if f.Redirects {
		can = append(can, "redirects")
	}
	if f.Fragments {
		can = append(can, "frames in several buffers")
	}
	if !f.Redirects {
		return Finding{what, Slower, strings.Join(can, ", ") + "; it cannot send frames to other netdevs", "type TC"}
	}
	return Finding{what, OK, strings.Join(can, ", "), ""}
}
