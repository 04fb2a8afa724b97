// SPDX-License-Identifier: Apache-2.0

package n4

// Associations with SMFs (TS 29.244 6.2.6 to 6.2.8, TS 23.007 19A).

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/internal/n4/store"
	"github.com/polycube/polycube/internal/n4/tlv"
)

// peer is an SMF with an association. Its JSON form is a record of the store.
type peer struct {
	Node string     `json:"n"`
	Addr netip.Addr `json:"a"`
	// Port is where it receives requests.
	Port uint16 `json:"p"`
	// Recovery is the recovery time stamp, in seconds since 1900.
	Recovery uint32    `json:"r"`
	Since    time.Time `json:"s"`
	// Before is the number of the first session that was established after the SMF has restarted: those before it are removed.
	Before uint64 `json:"b,omitempty"`

	local    netip.Addr
	id       *ie.IE // the node ID of this end
	down     bool
	answered time.Time // the last answer to a heartbeat
}

// associations are those with SMFs, over what is kept of them. outOfService: there are to be none any more.
type associations struct {
	reports
	outOfService bool
}

// errOutOfService refuses an association after Leave.
var errOutOfService = &rules.RefusalError{Cause: ie.CauseRequestRejected, Why: "the UPF is taken out of service"}

// features are the UP function features that are implemented (TS 29.244 8.2.25): DDND and FTUP, EMPU and FRRT, MNOP, and
// UEIP if there are pools.
func (s *endpoint) features() *ie.IE {
	const ddnd, ftup, empu, frrt, ueip, mnop = 1 << 1, 1 << 4, 1 << 0, 1 << 5, 1 << 2, 1 << 4
	octet7 := uint8(mnop)
	if len(s.config.Pools) > 0 {
		octet7 |= ueip
	}
	return ie.NewUPFunctionFeatures(ddnd|ftup, empu|frrt, octet7, 0)
}

// nodeID is that of this end, for an SMF.
func (s *endpoint) nodeID(peer netip.Addr) *ie.IE {
	name := s.config.NodeID
	if name == "" {
		local, err := s.localFor(peer)
		if err != nil {
			local = s.config.Address.Addr()
		}
		name = local.String()
	}
	return ie.NewNodeIDHeuristic(name)
}

// locate finds how an SMF sees this end. Without a route nothing can be sent to it either.
func (s *keeper) locate(p *peer) {
	p.local, _ = s.localFor(p.Addr)
	p.id = s.nodeID(p.Addr)
}

// readNode reads the Node ID of a message.
func readNode(g tlv.Group) (string, error) {
	i, ok := g.First(ie.NodeID)
	if !ok {
		return "", rules.Missing(ie.NodeID)
	}
	want := map[uint8]int{ie.NodeIDIPv4Address: 5, ie.NodeIDIPv6Address: 17}
	if len(i.Value) < 2 || len(i.Value) > 256 || want[i.Value[0]] != 0 && len(i.Value) != want[i.Value[0]] {
		return "", rules.Incorrect(ie.NodeID, fmt.Errorf("%d bytes", len(i.Value)))
	}
	node, err := i.Decode().NodeID()
	if err == nil && node == "" {
		err = errors.New("an empty name")
	}
	if err != nil {
		return "", rules.Incorrect(ie.NodeID, err)
	}
	return node, nil
}

func readRecovery(g tlv.Group) (uint32, error) {
	i, ok := g.First(ie.RecoveryTimeStamp)
	if !ok {
		return 0, rules.Missing(ie.RecoveryTimeStamp)
	}
	n, err := i.Uint(4)
	if err != nil {
		return 0, rules.Incorrect(i.Type, err)
	}
	return uint32(n), nil
}

// associationSetup sets up an association. An existing one is replaced, and its sessions are removed unless the SMF says
// that it has them: TS 23.007 19A demands that whatever the recovery time stamp is.
func (s *associations) associationSetup(m *incoming) error {
	node, err := readNode(m.ies)
	if err != nil {
		return err
	}
	recovery, err := readRecovery(m.ies)
	if err != nil {
		return err
	}
	from := m.from.Addr()
	if len(s.config.Allowed) > 0 && !slices.ContainsFunc(s.config.Allowed, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return &rules.RefusalError{Cause: ie.CauseRequestRejected, Why: "the address is not allowed"}
	}
	if s.outOfService {
		return errOutOfService
	}
	if s.peers[node] == nil {
		if err := s.admit(from); err != nil {
			return err
		}
	}
	var retained func(*session) bool
	if was := s.peers[node]; was != nil {
		if was.Addr != from && !was.down {
			s.log.Warn("N4 association refused", "node", node, "peer", from, "associated", was.Addr)
			return &rules.RefusalError{Cause: ie.CauseRequestRejected, Why: "the node has an association from another address"}
		}
		retain, err := retention(m.ies)
		if err != nil {
			return err
		}
		if retain != nil && !s.blocked(node) {
			retained = func(is *session) bool { return retain(is.CP) }
		}
	}
	return s.leaveAll(node, "a new association", retained, func() {
		if s.outOfService { // since the request has come
			s.dissolve(node)
			s.refuse(m, 0, errOutOfService)
			return
		}
		s.associate(node, netip.AddrPortFrom(from, s.config.PeerPort), recovery)
		list := []*ie.IE{s.nodeID(from), ie.NewCause(ie.CauseRequestAccepted), ie.NewRecoveryTimeStamp(s.recovery), s.features()}
		if retained != nil {
			const psrei = 1
			list = append(list, ie.NewPFCPASRspFlags(psrei))
		}
		s.reply(m, 0, ie.CauseRequestAccepted, list)
	})
}

// retention returns which sessions are retained, by the address of their CP F-SEID; nil: none.
func retention(g tlv.Group) (func(netip.Addr) bool, error) {
	i, ok := g.First(ie.PFCPSessionRetentionInformation)
	if !ok {
		return nil, nil
	}
	in, err := i.Group()
	if err != nil {
		return nil, rules.Incorrect(i.Type, err)
	}
	var list []netip.Addr
	for _, entity := range in {
		if entity.Type != ie.CPPFCPEntityIPAddress {
			continue
		}
		f, err := entity.Decode().CPPFCPEntityIPAddress()
		if err != nil {
			return nil, rules.Incorrect(i.Type, err)
		}
		for _, b := range [][]byte{f.IPv4Address, f.IPv6Address} {
			if addr, ok := netip.AddrFromSlice(b); ok {
				list = append(list, addr.Unmap())
			}
		}
	}
	return func(a netip.Addr) bool { return len(list) == 0 || slices.Contains(list, a) }, nil
}

// associate keeps an association and begins its heartbeats.
func (s *associations) associate(node string, addr netip.AddrPort, recovery uint32) {
	now := time.Now()
	p := &peer{Node: node, Addr: addr.Addr(), Port: addr.Port(), Recovery: recovery, Since: now, answered: now}
	s.locate(p)
	s.enlist(p)
	s.keep(p)
	s.log.Info("N4 association set up", "node", node, "peer", addr)
	s.after(s.config.Heartbeat, func() { s.beat(p) })
}

// keep stores an association.
func (s *keeper) keep(p *peer) {
	value, err := json.Marshal(p)
	if err != nil {
		panic(err) // its fields have texts
	}
	s.writes = append(s.writes, store.Write{Bucket: store.Peers, Key: []byte(p.Node), Value: value})
}

// associated returns the association of a message from the SMF itself.
func (s *associations) associated(m *incoming) (*peer, error) {
	node, err := readNode(m.ies)
	if err != nil {
		return nil, err
	}
	p := s.peers[node]
	if p == nil || p.Addr != m.from.Addr() {
		return nil, &rules.RefusalError{Cause: ie.CauseNoEstablishedPFCPAssociation}
	}
	return p, nil
}

func (s *associations) associationUpdate(m *incoming) error {
	p, err := s.associated(m)
	if err != nil {
		return err
	}
	s.log.Info("N4 association updated", "node", p.Node, "peer", p.Addr)
	s.reply(m, 0, ie.CauseRequestAccepted, []*ie.IE{s.nodeID(p.Addr), ie.NewCause(ie.CauseRequestAccepted), s.features()})
	return nil
}

func (s *associations) associationRelease(m *incoming) error {
	p, err := s.associated(m)
	if err != nil {
		return err
	}
	s.dissolve(p.Node)
	return s.leaveAll(p.Node, "the release of the association", nil, func() {
		s.log.Info("N4 association released", "node", p.Node, "peer", p.Addr)
		s.reply(m, 0, ie.CauseRequestAccepted, []*ie.IE{s.nodeID(p.Addr), ie.NewCause(ie.CauseRequestAccepted)})
	})
}

// enlist has an association, in the place of the node's former one.
func (s *keeper) enlist(p *peer) {
	if was := s.peers[p.Node]; was != nil {
		s.senders.remove(was.Addr)
	}
	s.peers[p.Node] = p
	s.senders.add(p.Addr)
}

// dissolve removes an association. After a crash, what is left of its sessions is found by the association that is not there.
func (s *keeper) dissolve(node string) {
	if s.peers[node] == nil {
		return
	}
	s.senders.remove(s.peers[node].Addr)
	delete(s.peers, node)
	s.writes = append(s.writes, store.Write{Bucket: store.Peers, Key: []byte(node)})
}

// setUp sets up an association with a configured SMF, unless there is one: a request would remove its sessions.
func (s *associations) setUp(addr netip.AddrPort) {
	if s.outOfService {
		return
	}
	again := func() { s.after(s.config.Heartbeat, func() { s.setUp(addr) }) }
	for _, p := range s.peers {
		if p.Addr == addr.Addr() {
			again()
			return
		}
	}
	ies := encode([]*ie.IE{s.nodeID(addr.Addr()), ie.NewRecoveryTimeStamp(s.recovery), s.features()})
	s.ask(addr, message.MsgTypeAssociationSetupRequest, false, 0, ies, func(m *incoming, err error) {
		defer again()
		if err == nil {
			err = s.setUpAnswered(addr, m)
		}
		if err != nil {
			s.log.Warn("N4 association setup", "peer", addr, "error", err)
		}
	})
}

func (s *associations) setUpAnswered(addr netip.AddrPort, m *incoming) error {
	if cause := causeOf(m); cause != ie.CauseRequestAccepted {
		return fmt.Errorf("cause %d", cause)
	}
	node, err := readNode(m.ies)
	if err != nil {
		return err
	}
	recovery, err := readRecovery(m.ies)
	if err != nil {
		return err
	}
	if was := s.peers[node]; was != nil && was.Addr != addr.Addr() {
		return fmt.Errorf("node %s has an association from %v", node, was.Addr)
	}
	return s.leaveAll(node, "a new association", nil, func() {
		if !s.outOfService {
			s.associate(node, addr, recovery)
			return
		}
		// Leave was called while the request was on its way. The SMF has an association now, and this end has none.
		s.dissolve(node)
		s.askToRelease(node, addr)
	})
}

// causeOf returns the cause of a response. Those to heartbeats have none.
func causeOf(m *incoming) uint8 {
	i, _ := m.ies.First(ie.Cause)
	n, err := i.Uint(1)
	switch {
	case err == nil:
		return uint8(n)
	case m.kind == message.MsgTypeHeartbeatResponse:
		return ie.CauseRequestAccepted
	}
	return ie.CauseMandatoryIEMissing
}

// Leave asks all SMFs to release their associations, before the UPF is taken out of service, and accepts no others any more.
func (s *Server) Leave() error { return s.do(s.retire) }

func (s *associations) retire() {
	s.outOfService = true
	for _, p := range s.peers {
		s.askToRelease(p.Node, p.requests())
	}
}

// askToRelease asks an SMF to release its association.
func (s *associations) askToRelease(node string, addr netip.AddrPort) {
	ies := encode([]*ie.IE{s.nodeID(addr.Addr()), ie.NewPFCPAssociationReleaseRequest(1, 0)})
	s.ask(addr, message.MsgTypeAssociationUpdateRequest, false, 0, ies, func(_ *incoming, err error) {
		if err != nil {
			s.log.Warn("N4 association update", "node", node, "peer", addr, "error", err)
		}
	})
}

// requests is where an SMF receives requests.
func (p *peer) requests() netip.AddrPort { return netip.AddrPortFrom(p.Addr, p.Port) }
