// SPDX-License-Identifier: Apache-2.0

package sdf

// The rows of a map of lists. Devices with equal flows share a row.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/grace"
	"github.com/polycube/polycube/cube/table"
)

// Lists are the rows of a map, an array of struct pcn_sdf_list whose first row is not used. It is not safe for concurrent use.
type Lists struct {
	rows *table.Mapped[List]
	of   map[List]*shared
	// next is the first row that was never used, and freed are others.
	next  uint32
	freed []uint32
}

// shared is a row with the number of its users.
type shared struct{ row, users uint32 }

// NewLists returns the rows of a map, all of them free.
func NewLists(rows *table.Mapped[List]) *Lists {
	return &Lists{rows: rows, of: map[List]*shared{}, next: 1}
}

// Close unmaps the map.
func (l *Lists) Close() error { return l.rows.Close() }

// Begin takes over the rows that an earlier daemon has given to devices. Nobody has them yet here; Abandon frees those that
// nobody has taken.
func (l *Lists) Begin(used map[uint32]bool) error {
	rows, err := l.rows.Values()
	if err != nil {
		return err
	}
	l.of, l.next, l.freed = map[List]*shared{}, 1, nil
	for row := range used {
		if int(row) >= len(rows) {
			return fmt.Errorf("row %d of lists, and there are %d: %w", row, len(rows), cube.ErrInvalid)
		}
		l.next = max(l.next, row+1)
	}
	for row := uint32(1); row < l.next; row++ {
		if is := rows[row]; used[row] && l.of[is] == nil {
			l.of[is] = &shared{row: row}
		} else if !used[row] {
			l.freed = append(l.freed, row)
		}
	}
	return nil
}

// After returns how many lists are in use after a change. users is the change of each list's number of users.
func (l *Lists) After(users map[List]int) int {
	n := len(l.of)
	for is, more := range users {
		switch s := l.of[is]; {
		case s == nil && more > 0:
			n++
		case s != nil && int(s.users)+more == 0:
			n--
		}
	}
	return n
}

// Take returns the row of a list, and uses it once more. The error wraps cube.ErrFull if no row is free.
func (l *Lists) Take(is List) (row uint32, err error) {
	s := l.of[is]
	if s == nil {
		if s, err = l.write(is); err != nil {
			return 0, err
		}
	}
	s.users++
	return s.row, nil
}

// write writes a list to a row that nobody uses.
func (l *Lists) write(is List) (*shared, error) {
	rows, err := l.rows.Values()
	if err != nil {
		return nil, err
	}
	row := l.next
	switch {
	case int(row) < len(rows):
		l.next++
	case len(l.freed) > 0:
		row, l.freed = l.freed[0], l.freed[1:]
	default:
		return nil, fmt.Errorf("all %d rows of lists are in use: %w", len(rows)-1, cube.ErrFull)
	}
	rows[row] = is
	s := &shared{row: row}
	l.of[is] = s
	return s, nil
}

// Drop ends a use of each list, once the packets that may have found it are through.
func (l *Lists) Drop(dropped []List) (err error) {
	if len(dropped) > 0 {
		err = grace.Wait()
	}
	l.Dropped(dropped)
	return err
}

// Dropped is Drop without the grace period, which the caller has waited for.
func (l *Lists) Dropped(dropped []List) {
	for _, is := range dropped {
		s := l.of[is]
		if s == nil {
			continue
		}
		if s.users--; s.users == 0 {
			l.forget(is)
		}
	}
}

// forget frees the row of a list.
func (l *Lists) forget(is List) {
	l.freed = append(l.freed, l.of[is].row)
	delete(l.of, is)
}

// Abandon frees the rows of an earlier daemon that nobody has taken.
func (l *Lists) Abandon() {
	for is, s := range l.of {
		if s.users == 0 {
			l.forget(is)
		}
	}
}
