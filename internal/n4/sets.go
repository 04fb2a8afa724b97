// SPDX-License-Identifier: Apache-2.0

package n4

// Sets of sessions (TS 23.007 20 to 23, TS 29.244 7.4.6): when a part of a node fails, an SMF has all sessions deleted that were
// established with the number of the part.

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/n4/tlv"
)

// setID is a connection set identifier of a node (an FQ-CSID has up to 15).
type setID struct {
	// Node is the address of the node, with its type, in hexadecimal digits.
	Node string `json:"n"`
	ID   uint16 `json:"i"`
	// Kind is the node type, anyKind if there is none.
	Kind uint8 `json:"k"`
}

// anyKind: an FQ-CSID of releases before the node type.
const anyKind = 0xff

// maxSetIEs is the number of FQ-CSIDs of a message: there are seven types of nodes.
const maxSetIEs = 8

// readSets reads the FQ-CSIDs of a message (TS 29.244 8.2.46).
func readSets(g tlv.Group) ([]setID, error) {
	var list []setID
	read := 0
	for _, i := range g {
		if i.Type != ie.FQCSID {
			continue
		}
		if read++; read > maxSetIEs {
			return nil, rules.Incorrect(i.Type, fmt.Errorf("more than %d", maxSetIEs))
		}
		sets, err := readSet(i.Value)
		if err != nil {
			return nil, rules.Incorrect(i.Type, err)
		}
		list = append(list, sets...)
	}
	return list, nil
}

// readSet reads one FQ-CSID.
func readSet(b []byte) ([]setID, error) {
	if len(b) == 0 {
		return nil, errors.New("it is empty")
	}
	length, known := map[byte]int{0: 4, 1: 16, 2: 4}[b[0]>>4] // IPv4, IPv6, and a number with the network's
	count := int(b[0] & 0xf)
	end := 1 + length + 2*count
	if !known || count == 0 || len(b) < end {
		return nil, fmt.Errorf("%d bytes, type of node %d, %d identifiers", len(b), b[0]>>4, count)
	}
	kind := uint8(anyKind)
	if len(b) > end {
		kind = b[end] & 0xf
	}
	node := hex.EncodeToString(append([]byte{b[0] >> 4}, b[1:1+length]...))
	var list []setID
	for at := 1 + length; at < end; at += 2 {
		list = append(list, setID{node, binary.BigEndian.Uint16(b[at:]), kind})
	}
	return list, nil
}

// matches reports whether two are of the same set.
func (a setID) matches(b setID) bool {
	return a.Node == b.Node && a.ID == b.ID && (a.Kind == b.Kind || a.Kind == anyKind || b.Kind == anyKind)
}

// replaceSets replaces the sets of a session: those of the node types that a request has.
func (s *session) replaceSets(by []setID) {
	kept := slices.DeleteFunc(slices.Clone(s.Sets), func(is setID) bool {
		return slices.ContainsFunc(by, func(new setID) bool { return new.Kind == is.Kind })
	})
	s.Sets = append(kept, by...)
}

// sessionSetDeletion removes the sessions of an SMF that are in one of the sets, and answers when they are gone.
func (s *associations) sessionSetDeletion(m *incoming) error {
	p, err := s.associated(m)
	if err != nil {
		return err
	}
	sets, err := readSets(m.ies)
	if err != nil {
		return err
	}
	if len(sets) == 0 {
		return &rules.RefusalError{Cause: ie.CauseConditionalIEMissing, Offending: ie.FQCSID, Why: "no set is named"}
	}
	retained := func(is *session) bool {
		return !slices.ContainsFunc(is.Sets, func(of setID) bool { return slices.ContainsFunc(sets, of.matches) })
	}
	return s.leave(p.Node, "the deletion of a set", retained, func() {
		s.reply(m, 0, ie.CauseRequestAccepted, []*ie.IE{s.nodeID(p.Addr), ie.NewCause(ie.CauseRequestAccepted)})
	})
}
