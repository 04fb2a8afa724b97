// SPDX-License-Identifier: Apache-2.0

package pdusession

// Which rows of a table are in use.

import (
	"fmt"
	"math/bits"

	"github.com/polycube/polycube/cube"
)

// space is a set of rows. Row 0 is never given away.
type space struct {
	name  string
	used  []uint64
	rows  uint32
	next  uint32 // where the next search begins
	count uint32
}

func newSpace(name string, rows uint32) *space {
	s := &space{name: name, used: make([]uint64, (rows+63)/64), rows: rows}
	s.used[0] = 1
	return s
}

// take finds n rows that follow each other, at most 64, and returns the first one.
func (s *space) take(n uint32) (uint32, error) {
	from := s.next
	for range 2 {
		if row, ok := s.find(from, n); ok {
			s.mark(row, n)
			s.next = row + n
			return row, nil
		}
		from = 0
	}
	return 0, fmt.Errorf("table %s: %d of %d rows are in use, and no %d in a row are left: %w", s.name, s.count, s.rows-1, n, cube.ErrFull)
}

// find searches from a row to the end.
func (s *space) find(row, n uint32) (uint32, bool) {
	for row+n <= s.rows {
		busy := s.window(row) & (1<<n - 1)
		if busy == 0 {
			return row, true
		}
		row += uint32(bits.Len64(busy)) // behind the last one that is in use
	}
	return 0, false
}

// window returns the bits of the 64 rows from a row on.
func (s *space) window(row uint32) uint64 {
	word, shift := row/64, row%64
	bits := s.used[word] >> shift
	if shift > 0 && int(word)+1 < len(s.used) {
		bits |= s.used[word+1] << (64 - shift)
	}
	return bits
}

// mark marks rows that are in use.
func (s *space) mark(row, n uint32) {
	for i := row; i < row+n; i++ {
		s.used[i/64] |= 1 << (i % 64)
	}
	s.count += n
}

// adopt marks rows of an earlier process; an error if they cannot be its.
func (s *space) adopt(row, n uint32) error {
	if row == 0 || n == 0 || n > 64 || uint64(row)+uint64(n) > uint64(s.rows) || s.window(row)&(1<<n-1) != 0 {
		return fmt.Errorf("table %s: rows %d to %d are not there, or in use by another session: %w", s.name, row, row+n-1, cube.ErrInvalid)
	}
	s.mark(row, n)
	return nil
}

// free gives rows back.
func (s *space) free(row, n uint32) {
	for i := row; i < row+n; i++ {
		s.used[i/64] &^= 1 << (i % 64)
	}
	s.count -= n
}
