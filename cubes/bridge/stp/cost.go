// SPDX-License-Identifier: Apache-2.0

package stp

// Path costs by speed as in the Linux bridge: the values recommended by IEEE 802.1D-1998 (8.10.2), but 5 for 1 Gbit/s,
// which leaves room for 2.5 and 5 Gbit/s. Those of 802.1D-2004 (17.14) are a thousand times larger: in a network with
// the small ones, traffic would avoid bridges that use the large ones.
const (
	slowest = 100
	fastest = 1
)

// costs are by speed in Mbit/s.
var costs = map[uint32]uint32{10: slowest, 100: 19, 1000: 5, 2500: 4, 5000: 3, 10000: 2}

// CostWithoutSpeed is the cost of a port to another cube, where frames cross no device: the same as for a veth, 10
// Gbit/s.
const CostWithoutSpeed = 2

// PathCost returns the cost of a port whose link has a speed in Mbit/s. An unknown or invalid speed costs as much as
// the slowest one, as in the Linux bridge.
func PathCost(speed uint32) uint32 {
	if speed > 10000 {
		return fastest
	}
	if cost, ok := costs[speed]; ok {
		return cost
	}
	return slowest
}
