// SPDX-License-Identifier: Apache-2.0

package covering

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// missing counts the pairs of values that no row has.
func missing(levels []int, rows [][]int) int {
	n := 0
	for i := range levels {
		for j := i; j < len(levels); j++ {
			if i == j && len(levels) > 1 {
				continue
			}
			for a := range levels[i] {
				for b := range levels[j] {
					if i == j && a != b {
						continue
					}
					has := false
					for _, row := range rows {
						has = has || row[i] == a && row[j] == b
					}
					if !has {
						n++
					}
				}
			}
		}
	}
	return n
}

// TestEveryPairIsInARow: and the rows are few. 4 parameters with 3 values take 9 rows at least, which is known not to be
// reached by picking greedily.
func TestEveryPairIsInARow(t *testing.T) {
	for _, c := range []struct {
		levels []int
		atMost int
	}{
		{nil, 1}, {[]int{1}, 1}, {[]int{4}, 4}, {[]int{2, 2}, 4}, {[]int{1, 3}, 3}, {[]int{3, 3, 3, 3}, 12},
		{[]int{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 11}, {[]int{5, 2, 2, 2, 2}, 11},
		{[]int{3, 3, 2, 2, 2, 2, 2, 2, 2, 3}, 16}, // those of nat
	} {
		rows, missed := Pairs(c.levels, 1000)
		if len(rows) > c.atMost || missed != 0 || missing(c.levels, rows) != 0 {
			t.Errorf("%v: %d rows, %d missed, %d missing: %v", c.levels, len(rows), missed, missing(c.levels, rows), rows)
		}
		for i, l := range rows[0] {
			if l != 0 {
				t.Errorf("%v: the first row has %d for parameter %d", c.levels, l, i)
			}
		}
	}
}

// TestRandomParameters: whatever the parameters are, nothing is missing and the same parameters give the same rows.
func TestRandomParameters(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		levels := make([]int, 1+random.IntN(12))
		for i := range levels {
			levels[i] = 1 + random.IntN(6)
		}
		rows, missed := Pairs(levels, 1000)
		again, _ := Pairs(levels, 1000)
		if missed != 0 || missing(levels, rows) != 0 || !reflect.DeepEqual(rows, again) {
			t.Errorf("seed %d, %v: %d missed, %d missing", seed, levels, missed, missing(levels, rows))
		}
	}
}

// TestTheRowsAreBounded: what found no room is counted.
func TestTheRowsAreBounded(t *testing.T) {
	for _, most := range []int{1, 3, 7} {
		levels := []int{4, 4, 4}
		rows, missed := Pairs(levels, most)
		if len(rows) != most || missed != missing(levels, rows) || missed == 0 {
			t.Errorf("at most %d: %d rows, %d missed, %d missing", most, len(rows), missed, missing(levels, rows))
		}
	}
}
