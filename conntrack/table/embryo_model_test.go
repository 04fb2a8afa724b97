// SPDX-License-Identifier: Apache-2.0

package table

// A model of CPUs that open half-open connections, answer and change them, while others take their entries: all orders
// of their steps, each of which is one access to memory that they share. The large table is a set of keys here, which it
// has each at most once: another model shows that.

import "testing"

// most slots of the ring, and of the only line.
const slots = 3

// embryoState is the status of an entry, without what else the word has.
type embryoState uint8

// The statuses, as in enum pcn_embryo_status.
const (
	asNone embryoState = iota
	asOpen
	asMoved
	asDead
	asBusy
	asWritten
)

// status is a status with its ticket and the number of changes.
type status struct {
	ticket, changes uint8
	is              embryoState
}

// task is what a packet does: opens the half-open connection with a key, changes it, or is the reply that moves it.
type task struct {
	key   uint8
	reply bool
}

// rules are what may be left out of the algorithm, so that the model shows what it is for.
type rules struct {
	noSecondLook, noCheck, noContest, noClaim bool
	changes                                   bool // a packet of a connection that is half open changes it
}

// Where a CPU is.
const (
	inLarge  uint8 = iota
	inLine         // looks for the key in the line
	copying        // the first half of an entry
	copied         // its second half, and the status again
	moving         // to the large table
	moved          // says so in the entry
	changing       // claims the entry
	changed1       // writes the first half
	changed2
	changedAll
	taking // a ticket
	claimed
	wrote1
	wrote2
	published
	linking
	contesting
	ready
)

// worker is a CPU with a packet.
type worker struct {
	at, slot uint8
	again    bool // it has looked again
	movedTo  bool // it has seen the key in an entry that moved
	busy     bool // or changes
	saw      status
	half     uint8 // the first half of a copy
	ticket   uint8
	was      status
	found    bool // at the end: the packet had a connection, or has opened one
}

// nursery is the state of all.
type nursery struct {
	entry  [slots]status
	half   [slots][2]uint8 // contents: the key, and the number of changes
	word   [slots]uint8    // tickets
	head   uint8
	large  [3]bool
	size   uint8 // of the ring and the line
	cpu    [cpus]worker
	wrong  uint8 // what is wrong
	writes [slots]uint8
}

// What is wrong.
const (
	torn uint8 = iota + 1
	two        // CPUs write to one entry
)

// content is half of what an entry has.
func content(key, changes uint8) uint8 { return key<<4 | changes&0xf }

// begin is the state with a connection of key 1, in the first entry, and packets to come.
func begin(tasks [cpus]task, known bool, size uint8) nursery {
	s := nursery{head: 1, size: size}
	if known {
		s.entry[1] = status{1, 0, asOpen}
		s.half[1] = [2]uint8{content(1, 0), content(1, 0)}
		s.word[1] = 1
		s.head = 2
	}
	for n := range s.cpu {
		if tasks[n].key == 0 {
			s.cpu[n].at = ready
		}
	}
	return s
}

func (s *nursery) at(ticket uint8) uint8 { return ticket % s.size }

// become replaces the status of the entry of a ticket.
func (s *nursery) become(ticket uint8, was, is status) bool {
	e := &s.entry[s.at(ticket)]
	if *e != was {
		return false
	}
	*e = is
	return true
}

// write writes half of an entry.
func (s *nursery) write(ticket, half, value uint8) { s.half[s.at(ticket)][half] = value }

// own counts who writes to an entry.
func (s *nursery) own(ticket uint8, by int8) {
	n := &s.writes[s.at(ticket)]
	if *n = uint8(int8(*n) + by); *n > 1 {
		s.wrong = two
	}
}

// next is the state after the next step of a CPU.
func (s nursery) next(n int, t task, r rules) nursery {
	c := &s.cpu[n]
	switch c.at {
	case inLarge:
		if s.large[t.key] {
			c.found, c.at = true, ready
			break
		}
		c.at, c.slot, c.movedTo, c.busy = inLine, 0, false, false
	case inLine:
		s.look(c, t, r)
	case copying:
		c.half, c.at = s.half[s.at(c.saw.ticket)][0], copied
	case copied:
		second := s.half[s.at(c.saw.ticket)][1]
		if s.entry[s.at(c.saw.ticket)] != c.saw && !r.noCheck {
			c.again, c.at = true, inLarge // it changes
			break
		}
		if c.half != second || c.half>>4 != t.key {
			s.wrong = torn
		}
		c.found, c.at = true, ready
		if t.reply {
			c.at = moving
		} else if r.changes {
			c.at = changing
		}
	case moving:
		s.large[t.key] = true
		c.at = moved
	case moved:
		s.become(c.saw.ticket, c.saw, status{c.saw.ticket, c.saw.changes, asMoved})
		c.at = ready
	case changing, changed1, changed2, changedAll:
		s.change(c, t, r)
	default:
		s.open(c, t, r)
	}
	return s
}

// look is the next step of looking for a key in the line.
func (s *nursery) look(c *worker, t task, r rules) {
	if c.slot == s.size {
		switch {
		case (c.busy || c.movedTo) && !c.again && !r.noSecondLook:
			c.again, c.at = true, inLarge
		case c.busy && !r.noSecondLook:
			c.at = inLarge
		case t.reply:
			c.at = ready
		default:
			c.at = taking
		}
		return
	}
	word := s.word[c.slot]
	c.slot++
	e := s.entry[s.at(word)]
	if word == 0 || e.ticket != word || s.half[s.at(word)][0]>>4 != t.key {
		return
	}
	switch e.is {
	case asOpen:
		c.saw, c.at = e, copying
	case asMoved:
		c.movedTo = true
	case asBusy:
		c.busy = true
	}
}

// change is the next step of changing a half-open connection.
func (s *nursery) change(c *worker, t task, r rules) {
	busy := status{c.saw.ticket, c.saw.changes, asBusy}
	switch c.at {
	case changing:
		if !s.become(c.saw.ticket, c.saw, busy) {
			c.at = ready
			return
		}
		s.own(c.saw.ticket, 1)
	case changed1, changed2:
		s.write(c.saw.ticket, c.at-changed1, content(t.key, c.saw.changes+1))
	case changedAll:
		s.own(c.saw.ticket, -1)
		s.become(c.saw.ticket, busy, status{c.saw.ticket, c.saw.changes + 1, asOpen})
		c.at = ready
		return
	}
	c.at++
}

// open is the next step of opening a half-open connection.
func (s *nursery) open(c *worker, t task, r rules) {
	written, open := status{c.ticket, 0, asWritten}, status{c.ticket, 0, asOpen}
	switch c.at {
	case taking:
		c.ticket = s.head
		s.head++
		c.was = s.entry[s.at(c.ticket)]
		if c.was.is >= asBusy && !r.noClaim {
			return // the next one
		}
	case claimed:
		if !s.become(c.ticket, c.was, written) && !r.noClaim {
			c.at = taking
			return
		}
		s.entry[s.at(c.ticket)] = written
		s.own(c.ticket, 1)
	case wrote1, wrote2:
		s.write(c.ticket, c.at-wrote1, content(t.key, 0))
	case published:
		s.own(c.ticket, -1)
		s.become(c.ticket, written, open)
	case linking:
		s.link(c)
	case contesting:
		s.contest(c, t, r, open)
		return
	}
	c.at++
	c.slot = 0
}

// link puts the ticket of a CPU into the line, in place of the lowest. Others take the same at another step.
func (s *nursery) link(c *worker) {
	oldest := 0
	for i, w := range s.word[:s.size] {
		if w < s.word[oldest] {
			oldest = i
		}
	}
	if s.word[oldest] < c.ticket {
		s.word[oldest] = c.ticket
	}
}

// contest is the next step of ending entries with the same key.
func (s *nursery) contest(c *worker, t task, r rules, mine status) {
	if c.slot == s.size || r.noContest {
		c.found, c.at = true, ready
		return
	}
	word := s.word[c.slot]
	c.slot++
	e := s.entry[s.at(word)]
	if word == 0 || word == c.ticket || e.ticket != word || e.is != asOpen || s.half[s.at(word)][0]>>4 != t.key {
		return
	}
	if word < c.ticket {
		s.become(c.ticket, mine, status{c.ticket, 0, asDead})
		c.found, c.at = true, ready
		return
	}
	s.become(word, e, status{e.ticket, e.changes, asDead})
}

// faults returns how many states that can be reached are wrong, how many end with a reply that found nothing, how many
// with a key that is half open twice, and the number of states.
func faults(tasks [cpus]task, known bool, size uint8, r rules) (wrong, missed, twice, states int) {
	seen := map[nursery]bool{}
	for work := []nursery{begin(tasks, known, size)}; len(work) > 0; {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[s] || s.head > 12 {
			continue
		}
		seen[s] = true
		if s.wrong > 0 {
			wrong++
			continue
		}
		done := true
		for n := range s.cpu {
			if s.cpu[n].at != ready {
				done = false
				work = append(work, s.next(n, tasks[n], r))
			}
		}
		if !done {
			continue
		}
		for n, t := range tasks {
			if t.reply && !s.cpu[n].found {
				missed++
			}
		}
		of := map[uint8]int{}
		for i := range s.entry[:s.size] {
			if s.entry[i].is == asOpen {
				of[s.half[i][0]>>4]++
			}
		}
		if of[1] > 1 || of[2] > 1 {
			twice++
		}
	}
	return wrong, missed, twice, len(seen)
}

func TestAllOrdersOfHalfOpenConnections(t *testing.T) {
	same, other := task{key: 1}, task{key: 2}
	reply := task{key: 1, reply: true}
	for name, tt := range map[string]struct {
		tasks [cpus]task
		known bool
		size  uint8
		rules rules
		// A reply is missed if others take the entry of its connection. One is open twice if it is changed at that moment.
		wrong, missed, twice bool
	}{
		"two replies and a new one":              {[cpus]task{reply, reply, other}, true, 2, rules{}, false, false, false},
		"the same without looking again":         {[cpus]task{reply, reply, other}, true, 2, rules{noSecondLook: true}, false, true, false},
		"a reply while all entries are taken":    {[cpus]task{reply, other, other}, true, 2, rules{}, false, true, false},
		"the same without comparing the status":  {[cpus]task{reply, other, other}, true, 2, rules{noCheck: true}, true, true, false},
		"one that is opened three times":         {[cpus]task{same, same, same}, false, 3, rules{}, false, false, false},
		"the same without a contest":             {[cpus]task{same, same, same}, false, 3, rules{noContest: true}, false, false, true},
		"the same if packets change it":          {[cpus]task{same, same, same}, false, 3, rules{changes: true}, false, false, true},
		"changes while entries are taken":        {[cpus]task{same, other, other}, true, 2, rules{changes: true}, false, false, true},
		"the same without leaving out busy ones": {[cpus]task{same, other, other}, true, 2, rules{changes: true, noClaim: true}, true, false, true},
		"a change, a reply and a new one":        {[cpus]task{same, reply, other}, true, 2, rules{changes: true}, false, false, false},
	} {
		wrong, missed, twice, states := faults(tt.tasks, tt.known, tt.size, tt.rules)
		t.Logf("%s: %d states", name, states)
		if wrong > 0 != tt.wrong || missed > 0 != tt.missed || twice > 0 != tt.twice {
			t.Errorf("%s: %d states are wrong, %d replies are missed, %d end twice", name, wrong, missed, twice)
		}
	}
}
