// SPDX-License-Identifier: Apache-2.0

package stp

// Path costs by speed are those of the Linux bridge: what IEEE 802.1D-1998 recommends (8.10.2), but 5 for 1 Gbit/s, which leaves
// room for 2.5 and 5 Gbit/s. Those of 802.1D-2004 (17.14) are a thousand times larger: bridges that use the small ones would
// avoid a bridge that uses these.
const (
	slowest = 100
	fastest = 1
)

// costs are by speed in Mbit/s.
var costs = map[uint32]uint32{10: slowest, 100: 19, 1000: 5, 2500: 4, 5000: 3, 10000: 2}

// CostWithoutSpeed is the cost of a port to another cube, where frames cross no device: that of a veth, 10 Gbit/s.
const CostWithoutSpeed = 2

// PathCost is the cost of a port whose link has a speed in Mbit/s. An unknown speed, or one that no Ethernet has, costs as much
// as the slowest, as on the Linux bridge.
func PathCost(speed uint32) uint32 {
	if speed > 10000 {
		return fastest
	}
	if cost, ok := costs[speed]; ok {
		return cost
	}
	return slowest
}
