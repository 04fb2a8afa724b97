// SPDX-License-Identifier: Apache-2.0

package n4

// Sessions: what is kept of them, and how messages and notices find them.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/n4/store"
	"github.com/polycube/polycube/pdusession"
)

// session is a PFCP session. Its JSON form is a record of the store.
type session struct {
	// Number is the key in the store.
	Number uint64 `json:"-"`
	SEID   uint64 `json:"s"`
	// CPSEID and CP are the F-SEID of the SMF, Node is its node ID.
	CPSEID  uint64           `json:"cs"`
	CP      netip.Addr       `json:"ca"`
	Node    string           `json:"n"`
	Created time.Time        `json:"c"`
	Set     *rules.Set       `json:"r"`
	Rows    *pdusession.Rows `json:"d"`
	Usages  []usage          `json:"u,omitempty"`
	Pending []report         `json:"p,omitempty"`
	// Sets are those that it is deleted with.
	Sets []setID `json:"fc,omitempty"`
	// Inactivity is the user plane inactivity timer; 0: none.
	Inactivity time.Duration `json:"i,omitempty"`

	// due is when the next of the session's timers is; reported are FARs whose packets that wait have been reported.
	due      time.Time
	reported []uint32
	// leaving: it is going to be removed.
	leaving bool
	// idle: inactivity was reported. idleAt is when to look for packets again.
	idle   bool
	idleAt time.Time
}

// clone returns a copy for a request to change.
func (s *session) clone() *session {
	is := *s
	is.Set = s.Set.Clone()
	is.Usages = slices.Clone(s.Usages)
	is.Pending = slices.Clone(s.Pending)
	is.reported = slices.Clone(s.reported)
	return &is
}

// usage returns the usage of a URR; nil: none.
func (s *session) usage(id uint32) *usage {
	for i := range s.Usages {
		if s.Usages[i].ID == id {
			return &s.Usages[i]
		}
	}
	return nil
}

// convert returns the session of the data plane.
func (s *session) convert() (*pdusession.Session, error) {
	return s.Set.Convert(func(r *rules.URR) (threshold, quota pdusession.Volume) { return s.usage(r.ID).limits(r) })
}

// cpSession is what an SMF knows a session by.
type cpSession struct {
	node string
	seid uint64
}

// sessions are all of them, by what messages and notices have of them.
type sessions struct {
	byNumber map[uint64]*session
	bySEID   map[uint64]uint64
	byBlock  map[uint32]uint64
	byUsage  map[uint32]uint64
	byTunnel map[rules.Tunnel]uint64
	byCP     map[cpSession]uint64
	byNode   map[string]map[uint64]struct{}
	// senders counts them by the addresses of their CP F-SEIDs, too.
	senders senders
}

func newSessions(of senders) sessions {
	return sessions{map[uint64]*session{}, map[uint64]uint64{}, map[uint32]uint64{}, map[uint32]uint64{}, map[rules.Tunnel]uint64{},
		map[cpSession]uint64{}, map[string]map[uint64]struct{}{}, of}
}

// add makes a session known.
func (all *sessions) add(s *session) {
	all.byNumber[s.Number] = s
	all.senders.add(s.CP)
	if !s.leaving {
		all.bySEID[s.SEID] = s.Number
	}
	all.byCP[cpSession{s.Node, s.CPSEID}] = s.Number
	if all.byNode[s.Node] == nil {
		all.byNode[s.Node] = map[uint64]struct{}{}
	}
	all.byNode[s.Node][s.Number] = struct{}{}
	if s.Rows != nil {
		all.byBlock[s.Rows.Block] = s.Number
		for _, row := range s.Rows.Usages {
			all.byUsage[row] = s.Number
		}
	}
	for i := range s.Set.FARs {
		if t := s.Set.FARs[i].Tunnel; t.Peer.IsValid() {
			all.byTunnel[t] = s.Number
		}
	}
}

// remove forgets a session, but not what another one has by now.
func (all *sessions) remove(s *session) {
	delete(all.byNumber, s.Number)
	all.senders.remove(s.CP)
	delete(all.bySEID, s.SEID)
	forget(all.byCP, cpSession{s.Node, s.CPSEID}, s.Number)
	delete(all.byNode[s.Node], s.Number)
	if len(all.byNode[s.Node]) == 0 {
		delete(all.byNode, s.Node)
	}
	if s.Rows != nil {
		forget(all.byBlock, s.Rows.Block, s.Number)
		for _, row := range s.Rows.Usages {
			forget(all.byUsage, row, s.Number)
		}
	}
	for i := range s.Set.FARs {
		forget(all.byTunnel, s.Set.FARs[i].Tunnel, s.Number)
	}
}

func forget[K comparable](m map[K]uint64, key K, number uint64) {
	if m[key] == number {
		delete(m, key)
	}
}

// ofNode returns the numbers of an SMF's sessions, sorted.
func (all *sessions) ofNode(node string) []uint64 {
	list := make([]uint64, 0, len(all.byNode[node]))
	for number := range all.byNode[node] {
		list = append(list, number)
	}
	slices.Sort(list)
	return list
}

func sessionKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// record returns what is stored of a session.
func (s *session) record() (store.Write, error) {
	value, err := json.Marshal(s)
	if err != nil {
		return store.Write{}, fmt.Errorf("session %d: %w", s.Number, err)
	}
	return store.Write{Bucket: store.Sessions, Key: sessionKey(s.Number), Value: value}, nil
}

// readSession returns the session of a record.
func readSession(key, value []byte) (*session, error) {
	s := &session{}
	if len(key) != 8 {
		return nil, fmt.Errorf("session %x: the key has %d bytes", key, len(key))
	}
	s.Number = binary.BigEndian.Uint64(key)
	if err := json.Unmarshal(value, s); err != nil {
		return nil, fmt.Errorf("session %d: %w", s.Number, err)
	}
	if s.Set == nil || s.Rows == nil {
		return nil, fmt.Errorf("session %d: the record is incomplete", s.Number)
	}
	for i := range s.Set.URRs {
		if s.usage(s.Set.URRs[i].ID) == nil {
			return nil, fmt.Errorf("session %d: URR %d has no usage", s.Number, s.Set.URRs[i].ID)
		}
	}
	return s, nil
}
