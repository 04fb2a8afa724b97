// SPDX-License-Identifier: Apache-2.0

package edpi

// Flows end here: what they have counted is added to the classes, and polycube-ndpi is told.

import (
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/dpi"
)

// count is struct edpi_count. Parts of a sum may be negative, modulo 2^64.
type count struct{ Packets, Bytes, Flows uint64 }

func (c *count) add(d count) {
	c.Packets, c.Bytes, c.Flows = c.Packets+d.Packets, c.Bytes+d.Bytes, c.Flows+d.Flows
}

func (c count) negative() count { return count{-c.Packets, -c.Bytes, -c.Flows} }

// flows are the maps of the flows.
type flows struct {
	env       cube.Env
	table     table.Table[dpi.Key, dpi.Flow]
	decisions table.Table[dpi.Key, dpi.Decision]
	counts    table.PerCPU[uint32, count]
	moved     table.Table[uint32, count]
	ended     table.Queue[dpi.Ended]

	// pending is what has to be moved between classes for flows that exist, as of the last sweep; live is their number.
	pending map[uint32]count
	live    uint32
	// late are the classes of flows whose programs have not adopted them, by the flow's ID.
	late map[uint64]lateClass
	// elephants are those that were announced.
	elephants map[uint64]bool
	// risks are those that were announced, by the flow's ID; risky is how many flows with others this sweep has found.
	risks                        map[uint64]uint64
	risky                        int
	riskNames                    func(set uint64) string
	expired, cutShort, notLogged uint64
	sweeps                       uint64
}

func newFlows(env cube.Env) *flows {
	return &flows{
		env: env, table: table.New[dpi.Key, dpi.Flow](env, "flows"), decisions: table.New[dpi.Key, dpi.Decision](env, "decisions"),
		counts: table.NewPerCPU[uint32, count](env, "counts"), moved: table.New[uint32, count](env, "moved"),
		ended: table.NewQueue[dpi.Ended](env, "ended"), late: map[uint64]lateClass{}, elephants: map[uint64]bool{}, risks: map[uint64]uint64{},
	}
}

// lateClass is a class that was read some sweeps ago, after so many packets of the flow.
type lateClass struct {
	class   dpi.Class
	packets [2]uint64
}

const (
	// strangers is how many sweeps are between two that look for decisions without a flow.
	strangers = 60
	// unanswered is how long a flow of one side is kept when the table is almost full.
	unanswered = time.Second
	// rereads is how many sweeps are between two that read the decision about a flow without new packets: reading it takes several
	// times as long as all else that a sweep does with a flow, and it rarely changes. The flow's end reads it in any case.
	rereads = 8
	// maxRisky is how many flows with risks a sweep announces one by one.
	maxRisky = 10
)

// class is that of a flow; known: it has one. late: the program has not adopted it, which it does with the next packet.
func (f *flows) class(key dpi.Key, is *dpi.Flow) (class dpi.Class, known, late bool) {
	if is.Flags&dpi.Decided != 0 {
		return is.Class, true, false
	}
	if is.Inspected == 0 {
		return dpi.Class{}, false, false
	}
	was, ok := f.late[is.ID]
	if ok && was.packets == is.Packets && (f.sweeps+is.ID)%rereads != 0 {
		return was.class, true, true
	}
	d, ok, err := f.decisions.Get(key)
	if err != nil || !ok || d.ID != is.ID {
		return dpi.Class{}, false, false
	}
	f.late[is.ID] = lateClass{d.Class, is.Packets}
	return d.Class, true, true
}

// sweep ends flows. rows are times of classes; told: polycube-ndpi takes flows that have ended.
func (f *flows) sweep(conf *Config, rows map[uint32]time.Duration, told bool) error {
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	tight := f.live > conf.MaxFlows/8*7
	pending, elephants, risks := map[uint32]count{}, map[uint64]bool{}, map[uint64]uint64{}
	live, lates := uint32(0), 0
	var old []dpi.Key
	var cut int
	for key, is := range f.table.All(&err) {
		live++
		early := tight && (is.Packets[0] == 0 || is.Packets[1] == 0) && aging.Aged(now, is.Last, unanswered)
		class, known, late := f.class(key, &is)
		if early || aging.Aged(now, is.Last, conf.timeout(rows, key, &is, class, known)) {
			old = append(old, key)
			if early {
				cut++
			}
			continue
		}
		if is.Flags&dpi.Elephant != 0 {
			elephants[is.ID] = true
			f.announce(key, is)
		}
		if class.Risks != 0 {
			risks[is.ID] = class.Risks
			f.warn(key, is, class.Risks)
		}
		if late {
			move(pending, is, class)
			lates++
		}
	}
	if err != nil {
		return err
	}
	f.elephants = elephants
	if len(f.late) > 2*lates { // most are of flows that have ended, or have adopted their class
		f.late = map[uint64]lateClass{}
	}
	err = f.end(old, told)
	if f.risky > maxRisky {
		author.Announce(f.env, "risk", fmt.Sprintf("%d more flows have risks", f.risky-maxRisky))
	}
	f.risks, f.risky = risks, 0
	f.pending, f.live = pending, live-min(live, uint32(len(old)))
	f.cutShort += uint64(cut)
	if f.sweeps++; f.sweeps%strangers == 0 {
		err = errors.Join(err, f.clean())
	}
	return err
}

// announce adds an event for a new elephant.
func (f *flows) announce(key dpi.Key, is dpi.Flow) {
	if !f.elephants[is.ID] {
		e := endsOf(key, is)
		author.Announce(f.env, "elephant", fmt.Sprintf("%s from %s port %d to %s port %d is an elephant", e.L4, e.Source, e.SourcePort, e.Destination, e.DestinationPort))
	}
}

// warn adds an event for a flow whose risks were not announced, unless there are too many.
func (f *flows) warn(key dpi.Key, is dpi.Flow, risks uint64) {
	if risks == 0 || f.risks[is.ID] == risks {
		return
	}
	if f.risky++; f.risky <= maxRisky {
		e := endsOf(key, is)
		author.Announce(f.env, "risk", fmt.Sprintf("%s from %s port %d to %s port %d: %s", e.L4, e.Source, e.SourcePort, e.Destination, e.DestinationPort, f.riskNames(risks)))
	}
}

// move moves what a flow has counted from the class that it has to another one.
func move(to map[uint32]count, is dpi.Flow, class dpi.Class) {
	all := count{is.Packets[0] + is.Packets[1], is.Bytes[0] + is.Bytes[1], 1}
	add := func(row uint32, by count) {
		c := to[row]
		c.add(by)
		to[row] = c
	}
	if is.Flags&dpi.Decided == 0 {
		add(dpi.Undecided, all.negative())
	} else {
		add(is.Class.ProtocolRow(), all.negative())
		add(is.Class.CategoryRow(), all.negative())
	}
	add(class.ProtocolRow(), all)
	add(class.CategoryRow(), all)
}

// end removes flows.
func (f *flows) end(keys []dpi.Key, told bool) error {
	moved := map[uint32]count{}
	var errs []error
	for _, key := range keys {
		is, ok, err := f.table.LookupAndDelete(key)
		if err != nil || !ok {
			errs = append(errs, err)
			continue
		}
		f.expired++
		d, ok, err := f.decisions.LookupAndDelete(key)
		errs = append(errs, err)
		if ok && d.ID == is.ID {
			move(moved, is, d.Class)
			is.Class, is.Flags = d.Class, is.Flags|dpi.Decided
		}
		f.warn(key, is, is.Class.Risks)
		if !told || f.ended.Push(dpi.Ended{Key: key, Flow: is}) != nil {
			f.notLogged++
		}
	}
	for row, by := range moved {
		sum, _, err := f.moved.Get(row)
		if sum.add(by); err == nil {
			err = f.moved.Set(row, sum)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// clean removes decisions about flows that do not exist: they came too late.
func (f *flows) clean() error {
	var gone []dpi.Key
	var err error
	for key, d := range f.decisions.All(&err) {
		if is, ok, err := f.table.Get(key); err == nil && (!ok || is.ID != d.ID) {
			gone = append(gone, key)
		}
	}
	if err == nil {
		_, err = f.decisions.DeleteAll(gone)
	}
	return err
}

// forget removes all flows and sums, when the numbers of protocols have got another meaning.
func (f *flows) forget() error {
	f.env.Logger().Warn("polycube-ndpi has a different set of protocols: flows and counters were reset")
	rows := make([]uint32, dpi.Rows)
	for i := range rows {
		rows[i] = uint32(i)
	}
	f.pending, f.late = nil, map[uint64]lateClass{}
	_, err := f.counts.SetAll(rows, count{})
	return errors.Join(f.table.Clear(), f.decisions.Clear(), f.moved.Clear(), err)
}

// sums returns the packets of all classes, by row.
func (f *flows) sums() (map[uint32]count, error) {
	all := map[uint32]count{}
	var errs [2]error
	add := func(row uint32, by count) {
		c := all[row]
		c.add(by)
		all[row] = c
	}
	for row, each := range f.counts.All(&errs[0]) {
		for _, c := range each {
			add(row, c)
		}
	}
	for row, c := range f.moved.All(&errs[1]) {
		add(row, c)
	}
	for row, c := range f.pending {
		add(row, c)
	}
	return all, errors.Join(errs[:]...)
}
