// SPDX-License-Identifier: Apache-2.0

package inet

// Count is a number of packets, and of their bytes including the Ethernet header: the grouping `counters`.
type Count struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Sum adds the values of the CPUs.
func Sum(values []Count) (total Count) {
	for _, v := range values {
		total.Packets += v.Packets
		total.Bytes += v.Bytes
	}
	return total
}
