// SPDX-License-Identifier: Apache-2.0

package stp

// Path costs by speed: the values that IEEE 802.1D-1998 recommends (8.10.2), which the Linux bridge uses, and the Linux bridge's
// for speeds that the standard does not have. Those of 802.1D-2004 (17.14) are a thousand times larger: a bridge that uses them
// is avoided by all that do not.
const (
	slowest = 100
	fastest = 1
)

// costs are by speed in Mbit/s.
var costs = map[uint32]uint32{10: slowest, 100: 19, 1000: 4, 2500: 4, 5000: 3, 10000: 2}

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
