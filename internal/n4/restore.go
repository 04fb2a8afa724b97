// SPDX-License-Identifier: Apache-2.0

package n4

// After a start: what the store has, for the server and for the data plane.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/polycube/polycube/internal/n4/store"
	"github.com/polycube/polycube/pdusession"
)

// recoveryKey is that of the time at which this end began without sessions, in seconds since 1970.
var recoveryKey = []byte("recovery")

// load reads the store. The recovery time stamp is kept with it: to an SMF, this end has not restarted as long as it has
// its sessions. To remove all sessions, delete the file.
func (s *keeper) load() error {
	now := time.Now()
	s.recovery = now.Truncate(time.Second)
	stored := false
	err := s.store.Each(store.Self, func(key, value []byte) error {
		if string(key) == string(recoveryKey) && len(value) == 8 {
			s.recovery, stored = time.Unix(int64(binary.BigEndian.Uint64(value)), 0), true
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !stored {
		value := binary.BigEndian.AppendUint64(nil, uint64(s.recovery.Unix()))
		if err := s.store.Write([]store.Write{{Bucket: store.Self, Key: recoveryKey, Value: value}}); err != nil {
			return err
		}
	}
	if err := s.store.Each(store.Peers, s.loadPeer); err != nil {
		return err
	}
	if err := s.store.Each(store.Sessions, s.loadSession); err != nil {
		return err
	}
	err = s.store.Each(store.Answers, s.loadAnswer)
	for _, order := range s.received.order {
		slices.SortFunc(order, func(a, b transactionKey) int {
			return s.received.responses[a].at.Compare(s.received.responses[b].at)
		})
	}
	return err
}

func (s *keeper) loadPeer(_, value []byte) error {
	p := &peer{}
	if err := json.Unmarshal(value, p); err != nil {
		return fmt.Errorf("association: %w", err)
	}
	s.locate(p)
	s.enlist(p)
	return nil
}

func (s *keeper) loadAnswer(key, value []byte) error {
	k, err := readTransactionKey(key)
	if err != nil || len(value) < 8 {
		return fmt.Errorf("response of %d bytes: %w", len(value), err)
	}
	at := time.Unix(0, int64(binary.BigEndian.Uint64(value)))
	s.received.add(k, &response{bytes: append([]byte(nil), value[8:]...), at: at, durable: true, of: s.rememberedFor(k.peer.Addr())})
	return nil
}

func (s *keeper) loadSession(key, value []byte) error {
	is, err := readSession(key, value)
	if err != nil {
		return err
	}
	s.last = max(s.last, is.Number)
	s.sessions.add(is)
	c := s.resources.claim(is.Number)
	was := s.resources.maxGBR
	s.resources.maxGBR = 0 // what was admitted stays
	err = c.complete(nil, is.Set)
	s.resources.maxGBR = was
	if err != nil {
		return fmt.Errorf("session %d: %w", is.Number, err)
	}
	return nil
}

// Installed is a session of the store: ID is for Reinstalled.
type Installed struct {
	ID      uint64
	Session *pdusession.Session
	Rows    *pdusession.Rows
}

// Sessions yields the sessions of the store, before Run.
func (s *Server) Sessions() iter.Seq2[Installed, error] {
	return func(yield func(Installed, error) bool) {
		for number, is := range s.sessions.byNumber {
			converted, err := is.convert()
			if !yield(Installed{number, converted, is.Rows}, err) {
				return
			}
		}
	}
}

// Reinstalled says that a session of the store has been put into other rows, whose counts begin at 0. It sets the limits of
// its usages. What was counted since the last reports is lost.
func (s *Server) Reinstalled(id uint64, rows *pdusession.Rows) error {
	is := s.sessions.byNumber[id]
	if is == nil {
		return fmt.Errorf("session %d: %w", id, errUnknown)
	}
	s.sessions.remove(is)
	is.Rows = rows
	s.sessions.add(is)
	for i := range is.Usages {
		u := &is.Usages[i]
		u.recount(u.Reported)
		threshold, quota := u.limits(is.Set.URR(u.ID))
		if err := s.data.Arm(rows.Usages[u.ID], threshold, quota); err != nil {
			return fmt.Errorf("session %d: URR %d: %w", id, u.ID, err)
		}
	}
	s.dirty[id] = struct{}{}
	return nil
}
