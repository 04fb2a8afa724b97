// SPDX-License-Identifier: Apache-2.0

package n4

// Batches: changes of sessions are committed together, first in the data plane, then in the store, and then answered. If
// that is not possible, they are tried one by one.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/n4/store"
	"github.com/polycube/polycube/pdusession"
)

// keeper has the sessions and the associations, and keeps them, in the data plane and in the store.
type keeper struct {
	transactions
	data      DataPlane
	store     *store.Store
	sessions  sessions
	resources *resources
	peers     map[string]*peer
	leaving   map[string]*leaving // by node
	last      uint64              // number of a session

	batch   Batch
	changes []*change
	touched map[uint64]struct{} // sessions in changes
	// dirty are sessions whose records are to be written. saving: a timer tries again to write them.
	dirty  map[uint64]struct{}
	saving bool
}

// change is one of a session. was is nil for a new one, is for one that is removed.
type change struct {
	was, is *session
	claim   *claim
	// request is what asked for it, and retry carries it out again; nil if no message did.
	request *incoming
	retry   func(m *incoming)
	// done completes the change once it is in the data plane: it has the last counts of usages that were removed, by row,
	// and returns the response.
	done func(final map[uint32]pdusession.Counts) []*ie.IE
	// response is what the request is answered with. It is stored if it is durable.
	response []byte
	durable  bool
	// after is called once the change is stored; nil: nothing is to be done.
	after func()
}

// begun returns the batch.
func (s *keeper) begun() Batch {
	if s.batch == nil {
		s.batch = s.data.Begin()
	}
	return s.batch
}

// add adds a change to the batch.
func (s *keeper) add(c *change) {
	s.changes = append(s.changes, c)
	for _, is := range []*session{c.was, c.is} {
		if is != nil {
			s.touched[is.Number] = struct{}{}
		}
	}
}

// session returns a session in its present state: if the batch changes it, that is carried out first. nil: there is none.
func (s *keeper) session(number uint64) *session {
	if _, is := s.touched[number]; is {
		s.commit()
	}
	return s.sessions.byNumber[number]
}

// systemFailure refuses a request because of an error that is not the SMF's.
func systemFailure(err error) error {
	cause := ie.CauseSystemFailure
	if errors.Is(err, cube.ErrFull) {
		cause = ie.CauseNoResourcesAvailable
	}
	return &rules.RefusalError{Cause: cause, Why: err.Error()}
}

// take ends the batch.
func (s *keeper) take() (Batch, []*change) {
	batch, changes := s.batch, s.changes
	s.batch, s.changes = nil, nil
	clear(s.touched)
	return batch, changes
}

// commit carries out the batch.
func (s *keeper) commit() {
	batch, changes := s.take()
	if batch == nil {
		return
	}
	final, err := batch.Commit()
	if err != nil {
		s.log.Error("N4 batch", "sessions", len(changes), "error", err)
		s.oneByOne(changes, err)
		return
	}
	staged := slices.Clone(s.writes)
	for _, c := range changes {
		if staged, err = s.stage(staged, c, c.done(final)); err != nil {
			break
		}
	}
	if err == nil {
		err = s.store.Write(staged)
	}
	if err != nil {
		s.log.Error("N4 store", "sessions", len(changes), "error", err)
		s.rollBack(changes, final)
		s.oneByOne(changes, err)
		return
	}
	s.writes = s.writes[:0]
	for _, c := range changes {
		s.settle(c)
	}
}

// stage adds the records of a change, and that of its response if it has usage reports: once they count as reported, they
// must not be lost with the program.
func (s *keeper) stage(list []store.Write, c *change, ies []*ie.IE) ([]store.Write, error) {
	if c.request != nil {
		c.response = marshal(c.request.kind+1, true, c.of().CPSEID, c.request.sequence, encode(ies))
		if c.durable {
			list = append(list, s.durable(c.request, c.response))
		}
	}
	if c.is == nil {
		return append(list, store.Write{Bucket: store.Sessions, Key: sessionKey(c.was.Number)}), nil
	}
	w, err := c.is.record()
	return append(list, w), err
}

// of returns the session.
func (c *change) of() *session {
	if c.is != nil {
		return c.is
	}
	return c.was
}

// settle makes a change known, and answers.
func (s *keeper) settle(c *change) {
	if c.was != nil {
		s.sessions.remove(c.was)
	}
	var was, is *rules.Set
	if c.was != nil {
		was = c.was.Set
		delete(s.dirty, c.was.Number)
	}
	if c.is != nil {
		is = c.is.Set
		s.sessions.add(c.is)
	}
	c.claim.settle(was, is)
	if c.is == nil {
		s.resources.releaseGBR(was)
	}
	if c.request != nil {
		s.counters.requests[result{messageName(c.request.kind), ie.CauseRequestAccepted}]++
		s.answer(c.request, c.response, false) // its records were written
	}
	if c.after != nil {
		c.after()
	}
}

// oneByOne tries the changes of a batch again, each alone. One that was alone is refused.
func (s *keeper) oneByOne(changes []*change, err error) {
	for _, c := range changes {
		c.claim.undo()
	}
	for _, c := range changes {
		switch {
		case len(changes) > 1 && c.request == nil:
			s.removeOwn(c.was)
			s.commit()
		case len(changes) > 1:
			c.retry(c.request)
			s.commit()
		case c.request == nil:
			// Without a message, sessions are only removed.
			s.removeLater(c.was, err)
		default:
			s.refuse(c.request, c.of().CPSEID, systemFailure(err))
		}
	}
}

// removeOwn adds a removal that no message has asked for.
func (s *keeper) removeOwn(is *session) {
	if err := s.remove(is, nil, nil); err != nil {
		s.removeLater(is, err)
	}
}

// removeLater tries a removal again: the SMF does not know the session any longer.
func (s *keeper) removeLater(is *session, err error) {
	s.log.Error("N4 session", "node", is.Node, "seid", is.SEID, "removal", err)
	s.after(s.config.T1, func() {
		if is := s.session(is.Number); is != nil {
			s.removeOwn(is)
		}
	})
}

// rollBack has the data plane forward as before changes that could not be stored.
func (s *keeper) rollBack(changes []*change, final map[uint32]pdusession.Counts) {
	batch := s.data.Begin()
	var errs []error
	for _, c := range changes {
		if c.was == nil {
			errs = append(errs, batch.Remove(c.is.Rows))
			continue
		}
		var rows *pdusession.Rows
		if c.is != nil {
			rows = c.is.Rows
		}
		errs = append(errs, s.restore(batch, c.was, rows, final))
	}
	_, err := batch.Commit()
	if err = errors.Join(append(errs, err)...); err != nil {
		s.log.Error("N4 roll back", "sessions", len(changes), "error", err)
	}
}

// restore installs a former session in place of rows; nil: it was removed. Usages that are no longer in rows have new rows.
func (s *keeper) restore(batch Batch, was *session, rows *pdusession.Rows, final map[uint32]pdusession.Counts) error {
	s.sessions.remove(was)
	defer s.sessions.add(was)
	for i := range was.Usages {
		u := &was.Usages[i]
		row := was.Rows.Usages[u.ID]
		if counts, gone := final[row]; gone {
			u.recount(counts)
		}
	}
	is, err := was.convert()
	if err != nil {
		return fmt.Errorf("session %d: %w", was.Number, err)
	}
	if rows, err = batch.Put(rows, is); err != nil {
		return fmt.Errorf("session %d: %w", was.Number, err)
	}
	was.Rows = rows
	s.dirty[was.Number] = struct{}{}
	return nil
}

// save writes sessions that have changed without a request, and further records. If that is not possible, it is tried again
// later.
func (s *keeper) save() bool {
	staged := s.writes
	if len(s.dirty) > 0 {
		staged = slices.Clone(s.writes)
	}
	for number := range s.dirty {
		is := s.sessions.byNumber[number]
		if is == nil {
			continue
		}
		w, err := is.record()
		if err != nil {
			s.log.Error("N4 store", "error", err)
			continue
		}
		staged = append(staged, w)
	}
	if len(staged) == 0 {
		return true
	}
	if err := s.store.Write(staged); err != nil {
		s.log.Error("N4 store", "records", len(staged), "error", err)
		if !s.saving {
			s.saving = true
			s.after(s.config.T1, func() { s.saving = false })
		}
		return false
	}
	s.writes = s.writes[:0]
	clear(s.dirty)
	return true
}
