// SPDX-License-Identifier: Apache-2.0

package firewall

// Interfaces in rules. At the host's stack, a firewall gets the packets of many netdevs. Programs know a netdev by its index,
// and one that is deleted and created again has another index. So rules compare a number for the name, and a table maps
// the indexes of the netdevs that rules name to these numbers.

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// interfaces are the numbers of names, and the netdevs that have names.
type interfaces struct {
	rows    table.Table[netdevKey, interfaceRow]
	cube    uint32
	numbers map[string]uint8
	// netdevs are the names by index; nil anywhere but at the host's stack.
	netdevs map[int]string
}

// netdevKey is struct firewall_netdev.
type netdevKey struct{ Cube, Ifindex uint32 }

// key is that of a netdev.
func (x *interfaces) key(index int) netdevKey { return netdevKey{x.cube, uint32(index)} }

// own yields the rows of this cube.
func (x *interfaces) own(failed *error) iter.Seq2[netdevKey, interfaceRow] {
	return func(yield func(netdevKey, interfaceRow) bool) {
		for key, row := range x.rows.All(failed) {
			if key.Cube == x.cube && !yield(key, row) {
				return
			}
		}
	}
}

// interfaceRow is struct firewall_interface.
type interfaceRow struct {
	Number uint32
	Name   [16]byte
}

func (r *interfaceRow) name() string { return string(bytes.TrimRight(r.Name[:], "\x00")) }

// maxInterfaces is how many names there can be: 0 is the number of all other netdevs.
const maxInterfaces = 255

func newInterfaces(env cube.Env) *interfaces {
	return &interfaces{rows: table.New[netdevKey, interfaceRow](env, "interfaces"), cube: uint32(env.Instance()), numbers: map[string]uint8{}}
}

// number returns that of a name, which gets one if it has none.
func (x *interfaces) number(name string) (uint8, error) {
	if n := x.numbers[name]; n != 0 {
		return n, nil
	}
	var used [maxInterfaces + 1]bool
	for _, n := range x.numbers {
		used[n] = true
	}
	for n := 1; n <= maxInterfaces; n++ {
		if !used[n] {
			x.numbers[name] = uint8(n)
			return uint8(n), nil
		}
	}
	return 0, fmt.Errorf("%s: rules can name %d interfaces: %w", name, maxInterfaces, cube.ErrFull)
}

// adopt takes the numbers over that packets of an earlier daemon are compared with, and reports whether it has given out
// others.
func (x *interfaces) adopt() (changed bool, err error) {
	given := x.numbers
	x.numbers = map[string]uint8{}
	for _, row := range x.own(&err) {
		x.numbers[row.name()] = uint8(row.Number)
	}
	for name, n := range given {
		now, bad := x.number(name)
		err = errors.Join(err, bad)
		changed = changed || now != n
	}
	return changed, err
}

// forget frees the numbers of names that no rule has.
func (x *interfaces) forget(used map[string]bool) error {
	var errs []error
	for name := range x.numbers {
		if !used[name] {
			delete(x.numbers, name)
			errs = append(errs, x.clear(name))
		}
	}
	return errors.Join(errs...)
}

func (x *interfaces) clear(name string) error {
	var errs []error
	for index, is := range x.netdevs {
		if is == name {
			_, err := x.rows.Delete(x.key(index))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// write writes the numbers of the netdevs that have a name in rules.
func (x *interfaces) write() (undo func() error, err error) {
	var done cube.Undo
	for index, name := range x.netdevs {
		if n := x.numbers[name]; n != 0 {
			row := interfaceRow{Number: uint32(n)}
			copy(row.Name[:], name)
			if err := cube.Carry([]cube.Step{table.Put(x.rows, x.key(index), row)}, &done); err != nil {
				return nil, errors.Join(err, done.Run())
			}
		}
	}
	return done.Run, nil
}

// follow takes over which netdevs there are.
func (x *interfaces) follow(netdevs map[int]string) error {
	var err error
	var gone []netdevKey
	for key, row := range x.own(&err) {
		if netdevs[int(key.Ifindex)] != row.name() {
			gone = append(gone, key)
		}
	}
	_, bad := x.rows.DeleteAll(gone)
	x.netdevs = netdevs
	_, wrong := x.write()
	return errors.Join(err, bad, wrong)
}

// into and outOf are where the key has the numbers of the netdevs.
const (
	inShift  = 8
	inMask   = 0xff << inShift
	outShift = 0
	outMask  = 0xff << outShift
)

// condition returns the function that makes a rule match a netdev; nil without a name.
func (x *interfaces) condition(name string, shift int, mask uint16) func(*classifier.Match) error {
	if name == "" {
		return nil
	}
	return func(m *classifier.Match) error {
		n, err := x.number(name)
		m.InPortBits(uint16(n)<<shift, mask)
		return err
	}
}

// names returns the interfaces that rules name.
func (c chain) names(into map[string]bool) {
	for _, r := range c {
		for _, name := range r.is.interfaces() {
			into[name] = true
		}
	}
}

// interfaces are the names in a rule.
func (r *RuleFields) interfaces() []string {
	all := []string{r.InIface, r.OutIface, r.Not.InIface, r.Not.OutIface}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}
