// SPDX-License-Identifier: Apache-2.0

package n4

// Transactions (TS 29.244 6.4): a request that is received again gets the same response, and own requests are sent again
// until they are answered.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/internal/n4/store"
)

// maxReceived is the number of requests that are remembered, and maxStrange the number of those of strangers. If there are too many, the
// oldest one of the address that has sent the most is forgotten.
const maxReceived, maxStrange = 1 << 18, 1 << 13

// transactions are those with requests of SMFs, and with own ones. writes are records to be written: of responses that are
// forgotten, and of associations.
type transactions struct {
	endpoint
	received received
	requests map[uint32]*request
	sequence uint32
	writes   []store.Write
	senders  senders
}

// transactionKey identifies a request.
type transactionKey struct {
	peer     netip.AddrPort
	sequence uint32
	kind     uint8
}

// bytes is the key of a response in the store.
func (k transactionKey) bytes() []byte {
	b := binary.BigEndian.AppendUint32([]byte{k.kind}, k.sequence)
	return append(b, k.peer.String()...)
}

func readTransactionKey(b []byte) (transactionKey, error) {
	if len(b) < 6 {
		return transactionKey{}, fmt.Errorf("key %x is short", b)
	}
	peer, err := netip.ParseAddrPort(string(b[5:]))
	if err != nil {
		return transactionKey{}, fmt.Errorf("key %x: %w", b, err)
	}
	return transactionKey{peer, binary.BigEndian.Uint32(b[1:]), b[0]}, nil
}

// response is what a request was answered with; nil bytes: not yet, or not at all.
type response struct {
	bytes   []byte
	at      time.Time
	durable bool
	of      netip.Addr
}

// received are the requests that were received lately, and their order by the address that has sent them. Those of strangers are of the
// zero address.
type received struct {
	responses    map[transactionKey]*response
	order        map[netip.Addr][]transactionKey
	max, strange int
}

func newReceived() received {
	return received{map[transactionKey]*response{}, map[netip.Addr][]transactionKey{}, maxReceived, maxStrange}
}

func (all *received) add(key transactionKey, r *response) {
	all.responses[key] = r
	all.order[r.of] = append(all.order[r.of], key)
}

// most is the address that has sent the most.
func (all *received) most() (is netip.Addr) {
	most := 0
	for of, order := range all.order {
		if len(order) > most {
			is, most = of, len(order)
		}
	}
	return is
}

// remembered is the time that a response is kept: longer than any peer retransmits with our timers.
func (s *transactions) remembered() time.Duration {
	return 2 * s.config.T1 * time.Duration(s.config.N1+1)
}

// rememberedFor is the address that a request is remembered for.
func (s *transactions) rememberedFor(a netip.Addr) netip.Addr {
	if s.known(a) {
		return a
	}
	return netip.Addr{}
}

// repeated reports whether a request was received before, and answers it again. A new one is remembered.
func (s *transactions) repeated(m *incoming) bool {
	now := time.Now()
	key := transactionKey{m.from, m.sequence, m.kind}
	if r := s.received.responses[key]; r != nil {
		if now.Sub(r.at) < s.remembered() {
			if r.bytes != nil {
				s.send(m.from, r.bytes, true)
			}
			return true
		}
		s.forgetOld(r.of, now)
	}
	of := s.rememberedFor(m.from.Addr())
	s.forgetOld(of, now)
	switch all := &s.received; {
	case !of.IsValid() && len(all.order[of]) >= all.strange:
		s.forgetFirst(of)
	case len(all.responses) >= all.max:
		s.forgetFirst(all.most())
	}
	s.received.add(key, &response{at: now, of: of})
	return false
}

// forgetOften forgets the old requests of all addresses.
func (s *transactions) forgetOften() {
	now := time.Now()
	for of := range s.received.order {
		s.forgetOld(of, now)
	}
	s.after(s.remembered(), s.forgetOften)
}

// forgetOld forgets the old requests of an address.
func (s *transactions) forgetOld(of netip.Addr, now time.Time) {
	all := &s.received
	for len(all.order[of]) > 0 && now.Sub(all.responses[all.order[of][0]].at) >= s.remembered() {
		s.forgetFirst(of)
	}
}

// forgetFirst forgets the oldest request of an address, which has one.
func (s *transactions) forgetFirst(of netip.Addr) {
	all := &s.received
	key := all.order[of][0]
	if all.responses[key].durable {
		s.writes = append(s.writes, store.Write{Bucket: store.Answers, Key: key.bytes()})
	}
	delete(all.responses, key)
	if all.order[of] = all.order[of][1:]; len(all.order[of]) == 0 {
		delete(all.order, of)
	}
}

// answer sends the response of a request and remembers it.
func (s *transactions) answer(m *incoming, bytes []byte, depends bool) {
	if r := s.received.responses[transactionKey{m.from, m.sequence, m.kind}]; r != nil {
		r.bytes = bytes
	}
	s.send(m.from, bytes, depends)
}

// durable returns the record of a response.
func (s *transactions) durable(m *incoming, bytes []byte) store.Write {
	key := transactionKey{m.from, m.sequence, m.kind}
	at := time.Now()
	if r := s.received.responses[key]; r != nil {
		r.durable, at = true, r.at
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano()))
	return store.Write{Bucket: store.Answers, Key: key.bytes(), Value: append(value, bytes...)}
}

// errUnanswered: a request was sent as often as configured.
var errUnanswered = errors.New("no response")

// request is an own one that waits for its response.
type request struct {
	peer  netip.AddrPort
	kind  uint8
	bytes []byte
	sent  int
	// done is called with the response, or with errUnanswered.
	done func(m *incoming, err error)
}

// ask sends a request, and again until it is answered. It returns its sequence number.
func (s *transactions) ask(peer netip.AddrPort, kind uint8, session bool, seid uint64, ies []byte, done func(*incoming, error)) uint32 {
	for {
		s.sequence = (s.sequence + 1) & 0xffffff
		if _, used := s.requests[s.sequence]; !used && s.sequence != 0 {
			break
		}
	}
	number := s.sequence
	s.requests[number] = &request{peer: peer, kind: kind, bytes: marshal(kind, session, seid, number, ies), done: done}
	s.transmit(number, s.requests[number])
	return number
}

// transmit sends a request, unless it was answered in the meantime.
func (s *transactions) transmit(number uint32, r *request) {
	switch {
	case s.requests[number] != r:
		return
	case r.sent > s.config.N1:
		delete(s.requests, number)
		s.counters.asked[result{messageName(r.kind), 0}]++
		r.done(nil, errUnanswered)
		return
	}
	r.sent++
	s.send(r.peer, r.bytes, r.kind == message.MsgTypeSessionReportRequest)
	s.after(s.config.T1, func() { s.transmit(number, r) })
}

// answered takes a response. It must come from where the request went, with the type after that of the request.
func (s *transactions) answered(m *incoming) {
	r := s.requests[m.sequence]
	if r == nil || r.peer.Addr() != m.from.Addr() || m.kind != r.kind+1 {
		s.counters.unexpected++
		return
	}
	delete(s.requests, m.sequence)
	s.counters.asked[result{messageName(r.kind), causeOf(m)}]++
	r.done(m, nil)
}
