// SPDX-License-Identifier: Apache-2.0

// Package covering selects few combinations that contain every pair of values of two parameters. Faults that need
// three parameters at certain values are rare, and those that need two are not found by changing one at a time.
//
// The combinations are a covering array of strength two, built row by row like AETG (D. Cohen, S. Dalal, M. Fredman,
// G. Patton: "The AETG System: An Approach to Testing Based on Combinatorial Design", IEEE Transactions on Software
// Engineering 23(7), 1997): a row starts with a pair that no row has yet, each other parameter gets the value that
// adds most such pairs, and the best of several such rows is taken. Where AETG chooses at random, this takes the
// lowest value, so that the same parameters always give the same rows.
package covering

// Pairs returns rows with a value for each parameter, of which parameter i has levels[i], numbered from 0. The first
// row is all zeros, and with the others every pair of values of two parameters occurs. There are at most `most` rows;
// missed is the number of pairs that did not fit.
func Pairs(levels []int, most int) (rows [][]int, missed int) {
	a := newArray(levels)
	for row := make([]int, len(levels)); ; {
		rows = append(rows, row)
		a.take(row)
		if a.left == 0 || len(rows) >= most {
			return rows, a.left
		}
		row = a.next()
	}
}

// value is one value of a parameter.
type value struct{ parameter, level int }

// array is a covering array that is being built.
type array struct {
	levels []int
	// first is the number of a parameter's first value among all values.
	first []int
	total int
	// pairs says which pairs no row has yet, from the lower parameter to the higher. For a single parameter, each
	// value is a pair with itself.
	pairs []bool
	left  int
}

func newArray(levels []int) *array {
	a := &array{levels: levels}
	for _, n := range levels {
		a.first = append(a.first, a.total)
		a.total += n
	}
	a.pairs = make([]bool, a.total*a.total)
	a.each(func(p [2]value) { *a.open(p[0], p[1]) = true; a.left++ })
	return a
}

// open says whether no row has a pair yet.
func (a *array) open(v, w value) *bool {
	return &a.pairs[(a.first[v.parameter]+v.level)*a.total+a.first[w.parameter]+w.level]
}

// each calls fn for every pair, in order.
func (a *array) each(fn func([2]value)) {
	if len(a.levels) == 1 {
		for l := range a.levels[0] {
			fn([2]value{{0, l}, {0, l}})
		}
	}
	for i := range a.levels {
		for j := i + 1; j < len(a.levels); j++ {
			for k := range a.levels[i] * a.levels[j] {
				fn([2]value{{i, k / a.levels[j]}, {j, k % a.levels[j]}})
			}
		}
	}
}

// take closes the pairs of a row.
func (a *array) take(row []int) {
	for i := range row {
		for j := i; j < len(row); j++ {
			if open := a.open(value{i, row[i]}, value{j, row[j]}); *open {
				*open = false
				a.left--
			}
		}
	}
}

// candidates is how many rows are compared.
const candidates = 50

// next is the row that closes most pairs, among those built around an open pair each.
func (a *array) next() []int {
	var best []int
	most, n := 0, 0
	a.each(func(p [2]value) {
		if !*a.open(p[0], p[1]) || n == candidates {
			return
		}
		n++
		if row := a.around(p); best == nil || a.closes(row) > most {
			best, most = row, a.closes(row)
		}
	})
	return best
}

// around builds a row with a pair.
func (a *array) around(p [2]value) []int {
	row, set := make([]int, len(a.levels)), make([]bool, len(a.levels))
	for _, v := range p {
		row[v.parameter], set[v.parameter] = v.level, true
	}
	for i := range row {
		if !set[i] {
			row[i], set[i] = a.best(row, set, i), true
		}
	}
	return row
}

// closes counts the open pairs of a row.
func (a *array) closes(row []int) int {
	n := 0
	for i := range row {
		for j := i; j < len(row); j++ {
			if *a.open(value{i, row[i]}, value{j, row[j]}) {
				n++
			}
		}
	}
	return n
}

// best is the value of a parameter that adds most open pairs to a partial row.
func (a *array) best(row []int, set []bool, i int) int {
	best, most := 0, -1
	for l := range a.levels[i] {
		n := 0
		for j := range row {
			v, w := value{i, l}, value{j, row[j]}
			if j < i {
				v, w = w, v
			}
			if set[j] && *a.open(v, w) {
				n++
			}
		}
		if n > most {
			best, most = l, n
		}
	}
	return best
}
