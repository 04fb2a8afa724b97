// SPDX-License-Identifier: Apache-2.0

package pdusession

// The rows of the tables; the C structs of cubes/upf/upf.h define them.

import (
	"encoding/binary"
	"math"
	"net/netip"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
)

// tunnel is struct upf_tunnel, device struct upf_device. Addresses are in network byte order.
type tunnel struct {
	IPv6       uint64
	IPv4, Has  uint32
	Rule, List uint32
	Session    uint32
	_          uint32
}

type device struct {
	Rule, List, Session uint32
	_                   uint32
}

// enum upf_has.
const (
	hasIPv4 = 1 << iota
	hasIPv6
	fromNetwork
)

// rule is struct upf_rule.
type rule struct {
	Peer                     inet.Address
	TEID                     uint32
	Action, Flags, QFI, DSCP uint8
	Meters                   [MaxRuleMeters]uint32
	Usages                   [MaxRuleUsages]uint32
	Queue, Index             uint32
	Seen                     uint64
}

// instanceBit is the first bit of the network instance in rule.Index.
const instanceBit = 16

func indexOf(index int, instance string) uint32 {
	return uint32(index) | gtppath.Instance(instance)<<instanceBit
}

// enum upf_flag.
const (
	flagNotify = 1 << iota
	flagTunnel
	flagIPv6
	flagMark
	flagGuaranteed
	flagRedirects
)

// meter is struct upf_meter: what is up comes first.
type meter struct {
	Limit  [2]bucket.Limit
	Bucket [2]uint64
}

// usage is struct upf_usage.
type usage struct {
	Bytes, Packets   [2]uint64
	First, Last      uint64
	Watches, Told    uint32
	Near             uint64
	Threshold, Quota [3]uint64
	_                [2]uint64
}

// enum upf_watches.
const (
	watchThreshold = 1 << iota
	watchQuota
	watchStart
)

// queue is struct upf_queue.
type queue struct{ Waiting, State, Told, Zero uint32 }

// enum upf_queue_state.
const (
	hold uint32 = iota
	release
	discard
)

// redirect is struct upf_redirect.
type redirect struct {
	Length uint16
	URL    [MaxURL]byte
}

// redirectTo is the row of a URL.
func redirectTo(url string) (r redirect) {
	r.Length = uint16(copy(r.URL[:], url))
	return r
}

// notice is struct upf_notice.
type notice struct {
	Kind, Row, DSCP, TEID uint32
	Peer                  inet.Address
}

// limits brings a volume into the form of programs, which know no limit that is not there.
func limits(v Volume) (l [3]uint64, any bool) {
	for i, n := range []uint64{v.Total, v.Up, v.Down} {
		l[i] = math.MaxUint64
		if n != 0 {
			l[i], any = n, true
		}
	}
	return l, any
}

// key4 and key6 are an address and a prefix as keys of the tables.
func key4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.NativeEndian.Uint32(b[:])
}

func key6(p netip.Prefix) uint64 {
	b := p.Addr().As16()
	return binary.NativeEndian.Uint64(b[:])
}

// tunnelOf is the entry of a tunnel.
func (r *Rows) tunnelOf(w Way) tunnel {
	t := tunnel{Rule: w.Rule, List: w.List, Session: r.Number}
	if r.IPv4.IsValid() {
		t.IPv4, t.Has = key4(r.IPv4), hasIPv4
	}
	if r.IPv6.IsValid() {
		t.IPv6, t.Has = key6(r.IPv6), t.Has|hasIPv6
	}
	if w.FromNetwork {
		t.Has |= fromNetwork
	}
	return t
}

// device is the entry of the device's addresses and networks.
func (r *Rows) device() device {
	return device{Rule: r.Device.Rule, List: r.Device.List, Session: r.Number}
}
