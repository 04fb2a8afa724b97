// SPDX-License-Identifier: Apache-2.0

package inet

// Count is a number of packets, and their bytes from the Ethernet header on: the grouping `counters`.
type Count struct {
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Sum adds what the CPUs counted.
func Sum(values []Count) (total Count) {
	for _, v := range values {
		total.Packets += v.Packets
		total.Bytes += v.Bytes
	}
	return total
}
