// SPDX-License-Identifier: Apache-2.0

package edpi

// Policies in the maps of the programs. Each has a slot, which it keeps as long as it exists. Names become rows of classes
// when polycube-ndpi has announced them.

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/inet"
)

// classKey is struct edpi_policy_key.
type classKey struct {
	Kind uint32
	Name [36]byte
}

// rule is struct edpi_rule.
type rule struct{ Slot, Elephant uint16 }

// slotCount is EDPI_POLICIES.
const slotCount = 256

// policies are the maps, and what is in them.
type policies struct {
	rules    table.Table[uint32, rule]
	programs table.Table[uint32, policy]
	buckets  table.Table[uint32, uint64]
	slots    table.Table[classKey, uint32]
	counts   table.PerCPU[uint32, inet.Count]

	of      map[classKey]uint32
	written map[uint32]policy
	inRules map[uint32]rule
	conf    []Policy
	// names are those that polycube-ndpi has announced, by row; rows is the reverse, in lower case. Both are nil before.
	names *[dpi.Names]string
	rows  map[classKey]uint32
}

func newPolicies(env cube.Env) *policies {
	return &policies{
		rules: table.New[uint32, rule](env, "rules"), programs: table.New[uint32, policy](env, "policies"),
		buckets: table.New[uint32, uint64](env, "buckets"), slots: table.New[classKey, uint32](env, "slots"),
		counts: table.NewPerCPU[uint32, inet.Count](env, "policy_counts"),
		of:     map[classKey]uint32{}, written: map[uint32]policy{}, inRules: map[uint32]rule{},
	}
}

// begin reads what an earlier daemon has written.
func (p *policies) begin() error {
	var errs [3]error
	for key, slot := range p.slots.All(&errs[0]) {
		p.of[key] = slot
	}
	for slot, is := range p.programs.All(&errs[1]) {
		p.written[slot] = is
	}
	for row, is := range p.rules.All(&errs[2]) {
		if is != (rule{}) {
			p.inRules[row] = is
		}
	}
	return errors.Join(errs[:]...)
}

// refuse finds an entry of a list that is new and whose name polycube-ndpi does not know.
func (p *policies) refuse(list string, was, is []Policy) error {
	if p.rows == nil {
		return nil
	}
	old := map[classKey]bool{}
	for i := range was {
		old[was[i].key()] = true
	}
	for i := range is {
		if _, known := p.row(&is[i]); !known && !old[is[i].key()] {
			return fmt.Errorf("%s %s %s: unknown to polycube-ndpi: %w", list, kinds[is[i].Kind], is[i].Name, cube.ErrInvalid)
		}
	}
	return nil
}

// row is that of a class.
func (p *policies) row(of *Policy) (row uint32, known bool) {
	if of.Kind == Elephant {
		return dpi.Elephants, true
	}
	row, known = p.rows[of.key()]
	return row, known
}

// install makes programs follow these policies, and nothing else.
func (p *policies) install(conf []Policy, compiled map[classKey]policy) error {
	for key, slot := range p.of {
		if _, stays := compiled[key]; stays {
			continue
		}
		if err := p.remove(key, slot); err != nil {
			return err
		}
	}
	for key, is := range compiled {
		if err := p.put(key, is); err != nil {
			return err
		}
	}
	p.conf = conf
	return p.resolve()
}

// remove ends a policy: first no class refers to it any more.
func (p *policies) remove(key classKey, slot uint32) error {
	for row, is := range p.inRules {
		if uint32(is.Slot) != slot {
			continue
		}
		if err := p.setRule(row, rule{}); err != nil {
			return err
		}
	}
	if _, err := p.slots.Delete(key); err != nil {
		return err
	}
	delete(p.of, key)
	return nil
}

// put writes a policy into its slot, a free one if it is new.
func (p *policies) put(key classKey, is policy) error {
	slot, old := p.of[key]
	if !old {
		var err error
		if slot, err = p.allocate(); err != nil {
			return err
		}
		if _, err := p.counts.SetAll([]uint32{2 * slot, 2*slot + 1}, inet.Count{}); err != nil {
			return err
		}
		if err := p.buckets.Set(slot, 0); err != nil {
			return err
		}
	}
	if was := p.written[slot]; was != is || !old {
		if err := p.move(slot, was, is, old); err != nil {
			return err
		}
		if err := p.programs.Set(slot, is); err != nil {
			return err
		}
		p.written[slot] = is
	}
	if !old {
		if err := p.slots.Set(key, slot); err != nil {
			return err
		}
		p.of[key] = slot
	}
	return nil
}

// move keeps the tokens of a bucket whose rate changes.
func (p *policies) move(slot uint32, was, is policy, old bool) error {
	if !old || was.Limit == is.Limit || was.Limit.Price == 0 {
		return nil
	}
	now, err := cube.Time()
	if err != nil {
		return err
	}
	tokens, _, err := p.buckets.Get(slot)
	if err != nil {
		return err
	}
	return p.buckets.Set(slot, was.Limit.Moved(tokens, is.Limit, time.Duration(now)))
}

func (p *policies) allocate() (uint32, error) {
	used := map[uint32]bool{0: true}
	for _, slot := range p.of {
		used[slot] = true
	}
	for slot := uint32(1); slot < slotCount; slot++ {
		if !used[slot] {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("a cube has at most %d policies: %w", slotCount-1, cube.ErrFull)
}

// resolve makes classes refer to their policies.
func (p *policies) resolve() error {
	want := map[uint32]rule{}
	for i := range p.conf {
		if row, known := p.row(&p.conf[i]); known {
			is := rule{Slot: uint16(p.of[p.conf[i].key()])}
			if p.conf[i].Elephant {
				is.Elephant = 1
			}
			want[row] = is
		}
	}
	for row := range p.inRules {
		if _, stays := want[row]; !stays {
			if err := p.setRule(row, rule{}); err != nil {
				return err
			}
		}
	}
	for row, is := range want {
		if err := p.setRule(row, is); err != nil {
			return err
		}
	}
	return nil
}

func (p *policies) setRule(row uint32, is rule) error {
	if p.inRules[row] == is {
		return nil
	}
	if err := p.rules.Set(row, is); err != nil {
		return err
	}
	p.inRules[row] = is
	if is == (rule{}) {
		delete(p.inRules, row)
	}
	return nil
}

// know takes over the names of classes.
func (p *policies) know(names *[dpi.Names]string) error {
	p.names, p.rows = names, map[classKey]uint32{}
	for row, name := range names[:dpi.Rows] {
		if name == "" {
			continue
		}
		k := Policy{Kind: Protocol, Name: strings.ToLower(name)}
		if row >= dpi.Protocols {
			k.Kind = Category
		}
		p.rows[k.key()] = uint32(row)
	}
	return p.resolve()
}

// name is that of a row: its number if none is known.
func (p *policies) name(row uint32) string {
	if p.names != nil && p.names[row] != "" {
		return p.names[row]
	}
	return fmt.Sprint(row % dpi.Protocols)
}

// risks names the bits that are set: by their numbers, if no names are known.
func (p *policies) risks(set uint64) string {
	var all []string
	for ; set != 0; set &= set - 1 {
		bit := bits.TrailingZeros64(set)
		name := strconv.Itoa(bit)
		if p.names != nil && p.names[dpi.Rows+bit] != "" {
			name = p.names[dpi.Rows+bit]
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}
