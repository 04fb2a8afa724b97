// SPDX-License-Identifier: Apache-2.0

package sketch

// HyperLogLog: the number of different keys.

import (
	"math"
	"math/bits"
)

const registerBits = 12

// Distinct are the registers of a HyperLogLog on a CPU: struct pcn_sketch_distinct. Its estimate has a standard error of 1.6 %,
// 1.04 divided by the root of the number of registers (Flajolet, Fusy, Gandouet, Meunier, 2007).
type Distinct struct{ Rank [1 << registerBits]uint8 }

// Add does what pcn_sketch_distinct_add does.
func (d *Distinct) Add(hash uint64) {
	rank := uint8(bits.TrailingZeros64(hash>>registerBits|1<<(64-registerBits)) + 1)
	at := hash & (1<<registerBits - 1)
	d.Rank[at] = max(d.Rank[at], rank)
}

// Merge adds the keys of others, such as those that other CPUs or other machines with the same seed have seen.
func (d *Distinct) Merge(others ...Distinct) {
	for i := range others {
		for at, rank := range others[i].Rank {
			d.Rank[at] = max(d.Rank[at], rank)
		}
	}
}

// Count estimates how many different keys were added. It uses the estimator of Ertl (New cardinality estimation algorithms
// for HyperLogLog sketches, 2017, algorithm 6), which needs neither a table of corrections nor another method for small
// numbers.
func (d *Distinct) Count() uint64 {
	const most = 64 - registerBits + 1 // the largest rank
	var of [most + 1]float64           // number of registers with each rank
	for _, rank := range d.Rank {
		of[min(rank, most)]++
	}
	m := float64(len(d.Rank))
	z := m * tau(1-of[most]/m)
	for rank := most - 1; rank >= 1; rank-- {
		z = (z + of[rank]) / 2
	}
	z += m * sigma(of[0]/m)
	return uint64(math.Round(m * m / (2 * math.Ln2 * z)))
}

// sigma corrects for registers that are 0: the sum of x^(2^k) * 2^(k-1) from k = 1 on, and x.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	z, y := x, 1.0
	for {
		x *= x
		was := z
		z += x * y
		if z == was {
			return z
		}
		y *= 2
	}
}

// tau corrects for registers that are full.
func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	z, y := 1-x, 1.0
	for {
		x = math.Sqrt(x)
		was := z
		y /= 2
		z -= (1 - x) * (1 - x) * y
		if z == was {
			return z / 3
		}
	}
}
