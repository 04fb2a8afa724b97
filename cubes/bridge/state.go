// SPDX-License-Identifier: Apache-2.0

package bridge

// State that can be read and deleted: learned addresses, counters, and random addresses.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/inet"
)

// state has the structure of the model.
type state struct {
	STP   []stateSTP  `json:"stp,omitempty"`
	Ports []statePort `json:"ports,omitempty"`
	Fdb   *stateFdb   `json:"fdb,omitempty"`
	MAC   inet.MAC    `json:"mac,omitempty"`
}

type statePort struct {
	STP   []statePortSTP `json:"stp,omitempty"`
	Name  string         `json:"name"`
	MAC   inet.MAC       `json:"mac,omitempty"`
	Trunk *stateTrunk    `json:"trunk,omitempty"`
}

type stateTrunk struct {
	Allowed []Allowed `json:"allowed"`
}

type stateFdb struct {
	NotLearned *uint64   `json:"not-learned,omitempty"`
	Moves      *uint64   `json:"moves,omitempty"`
	Entry      []shownAs `json:"entry,omitempty"`
}

// shownAs is the form in which a database entry is shown.
type shownAs struct {
	VLAN uint16   `json:"vlan"`
	MAC  inet.MAC `json:"mac"`
	Port string   `json:"port"`
	Type string   `json:"type"`
	Age  *uint32  `json:"age,omitempty"`
}

// State returns the database, the counters, and the generated addresses.
func (b *bridge) State(_ context.Context, path []string) (any, error) {
	var s state
	var err error
	asked := func(name string) bool { return len(path) == 0 || path[0] == name }
	if asked("fdb") {
		s.Fdb, err = b.stateFdb(path)
	}
	if asked("ports") {
		if err := b.checkMode(path); err != nil {
			return nil, err
		}
		s.Ports = b.statePorts(path)
	}
	if asked("stp") {
		s.STP = b.span.state(path)
	}
	if asked("mac") && b.ports.mac.Random != 0 {
		s.MAC = b.ports.mac.MAC
	}
	return s, err
}

// checkMode refuses to show members that belong to the other port mode.
func (b *bridge) checkMode(path []string) error {
	if len(path) < 3 || path[2] != "access" && path[2] != "trunk" {
		return nil
	}
	for _, p := range b.config.Ports {
		if p.Name == path[1] && p.Mode.String() != path[2] {
			return fmt.Errorf("port %s: has no %s, because its mode is %s: %w", p.Name, path[2], p.Mode, cube.ErrNotFound)
		}
	}
	return nil
}

// statePorts returns the random addresses, and VLAN 1 where it is allowed implicitly.
func (b *bridge) statePorts(path []string) []statePort {
	var out []statePort
	for _, p := range b.config.Ports {
		if len(path) > 1 && path[1] != p.Name {
			continue
		}
		s := statePort{Name: p.Name}
		index, ok := b.env.PortIndex(p.Name)
		if is := b.ports.now[index]; ok && is.Random != 0 {
			s.MAC = is.MAC
		}
		if p.Mode == ModeTrunk && p.Trunk.DefaultVLAN {
			s.Trunk = &stateTrunk{Allowed: []Allowed{{defaultVLAN}}}
		}
		if ok && (len(path) < 3 || path[2] == "stp") {
			s.STP = b.span.portState(&p, index, path)
		}
		if s.MAC != 0 || s.Trunk != nil || s.STP != nil {
			out = append(out, s)
		}
	}
	return out
}

func (b *bridge) stateFdb(path []string) (*stateFdb, error) {
	s := &stateFdb{}
	var err error
	asked := func(name string) bool { return len(path) < 2 || path[1] == name }
	if asked("not-learned") {
		if s.NotLearned, err = b.counter("not-learned"); err != nil {
			return nil, err
		}
	}
	if asked("moves") {
		if s.Moves, err = b.counter("moves"); err != nil {
			return nil, err
		}
	}
	switch {
	case !asked("entry"):
	case len(path) > 3:
		s.Entry, err = b.oneEntry(path[2], path[3])
	default:
		s.Entry, err = b.entries()
	}
	return s, err
}

// counters are the counters of the program.
var counters = counter.Of(files, "bridge_counter")

func (b *bridge) counter(name string) (*uint64, error) {
	sum, err := counters.In(b.env, "counters").Sum(name)
	return &sum, err
}

// entries returns all entries, in the order of the list.
func (b *bridge) entries() ([]shownAs, error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	found := map[Key]shownAs{}
	for k, index := range b.fdb.Configured() {
		found[k] = b.showStatic(k, index)
	}
	for k, e := range b.fdb.AllLearned(&err) {
		found[k] = b.showLearned(k, e, now)
	}
	if err != nil {
		return nil, err
	}
	out := make([]shownAs, 0, len(found))
	for _, k := range slices.SortedFunc(maps.Keys(found), Key.compare) {
		out = append(out, found[k])
	}
	return out, nil
}

// parseKey parses the two keys of an entry.
func parseKey(vlan, mac string) (Key, error) {
	n, err := strconv.ParseUint(vlan, 10, 12)
	if err != nil {
		return 0, fmt.Errorf("VLAN %q: %w", vlan, cube.ErrInvalid)
	}
	a, err := inet.ParseMAC(mac)
	return keyOf(uint16(n), a), err
}

func (b *bridge) oneEntry(vlan, mac string) ([]shownAs, error) {
	k, err := parseKey(vlan, mac)
	if err != nil {
		return nil, err
	}
	if index, ok := b.fdb.ConfiguredPort(k); ok {
		return []shownAs{b.showStatic(k, index)}, nil
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	e, ok, err := b.fdb.Learned(k)
	if !ok {
		return nil, err
	}
	return []shownAs{b.showLearned(k, e, now)}, nil
}

// showStatic returns a configured entry as shown, showLearned a learned one.
func (b *bridge) showStatic(k Key, index uint16) shownAs {
	port, _ := b.env.PortName(index)
	return shownAs{VLAN: k.vlan(), MAC: k.address(), Port: port, Type: "static"}
}

func (b *bridge) showLearned(k Key, e fdb.Entry, now uint64) shownAs {
	port, _ := b.env.PortName(e.Port)
	age := uint32(e.Age(now) / time.Second)
	return shownAs{VLAN: k.vlan(), MAC: k.address(), Port: port, Type: "dynamic", Age: &age}
}

// DeleteState removes a learned address.
func (b *bridge) DeleteState(_ context.Context, path []string) error {
	if len(path) == 5 && path[0] == "ports" && path[3] == "allowed" && path[4] == "1" {
		return fmt.Errorf("VLAN 1 is allowed on every trunk; to change that, set default-vlan=false: %w", cube.ErrInvalid)
	}
	if len(path) != 4 || path[0] != "fdb" || path[1] != "entry" {
		return fmt.Errorf("delete %s: only learned entries can be deleted: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	found, err := b.oneEntry(path[2], path[3])
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("fdb entry %s %s: %w", path[2], path[3], cube.ErrNotFound)
	}
	k, err := parseKey(path[2], path[3])
	if err != nil {
		return err
	}
	return b.fdb.ForgetKey(k)
}
