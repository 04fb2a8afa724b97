// SPDX-License-Identifier: Apache-2.0

package classifier

// The rows of the map of lists. Subscribers with equal flows share a row.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

type lists struct {
	rows *table.Mapped[list]
	of   map[list]*shared
	// next is the first row that was never used, and freed are others.
	next  uint32
	freed []uint32
}

// shared is a row with the number of its users.
type shared struct{ row, users uint32 }

func newLists(env cube.Env) *lists {
	return &lists{rows: table.NewMapped[list](env, "lists"), of: map[list]*shared{}, next: 1}
}

// begin takes over the rows of an earlier daemon, which has given them to subscribers. Nobody has them yet here: a list that
// nobody takes is to be dropped.
func (l *lists) begin(used map[uint32]bool) error {
	rows, err := l.rows.Values()
	if err != nil {
		return err
	}
	l.of, l.next, l.freed = map[list]*shared{}, 1, nil
	for row := range used {
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

// check returns an error if more lists would be in use after a change of their users than there is room for.
func (l *lists) check(users map[list]int, most uint32) error {
	n := len(l.of)
	for is, more := range users {
		switch s := l.of[is]; {
		case s == nil && more > 0:
			n++
		case s != nil && int(s.users)+more == 0:
			n--
		}
	}
	if n > int(most) {
		return fmt.Errorf("%d different lists of flows, and max-flow-lists is %d: give subscribers equal flows, or create a classifier with more: %w", n, most, cube.ErrFull)
	}
	return nil
}

// take returns the row of a list, and uses it once more.
func (l *lists) take(is list) (row uint32, err error) {
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
func (l *lists) write(is list) (*shared, error) {
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

// drop ends a use of a list. The packets of its user must be through.
func (l *lists) drop(is list) {
	s := l.of[is]
	if s == nil {
		return
	}
	if s.users--; s.users == 0 {
		l.forget(is)
	}
}

// forget frees the row of a list.
func (l *lists) forget(is list) {
	l.freed = append(l.freed, l.of[is].row)
	delete(l.of, is)
}

// abandon frees the rows of an earlier daemon that nobody has taken.
func (l *lists) abandon() {
	for is, s := range l.of {
		if s.users == 0 {
			l.forget(is)
		}
	}
}
