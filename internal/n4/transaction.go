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

// maxReceived is the number of requests that are remembered. The oldest are forgotten first.
const maxReceived = 1 << 18

// transactions are those with requests of SMFs, and with own ones. writes are records to be written: of responses that are
// forgotten, and of associations.
type transactions struct {
	endpoint
	received received
	requests map[uint32]*request
	sequence uint32
	writes   []store.Write
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
}

// received are the requests that were received lately.
type received struct {
	responses map[transactionKey]*response
	order     []transactionKey
}

func newReceived() received { return received{responses: map[transactionKey]*response{}} }

// remembered is the time that a response is kept: longer than any peer retransmits with our timers.
func (s *transactions) remembered() time.Duration {
	return 2 * s.config.T1 * time.Duration(s.config.N1+1)
}

// repeated reports whether a request was received before, and answers it again. A new one is remembered.
func (s *transactions) repeated(m *incoming) bool {
	now := time.Now()
	s.forget(now)
	key := transactionKey{m.from, m.sequence, m.kind}
	if r := s.received.responses[key]; r != nil {
		if r.bytes != nil {
			s.send(m.from, r.bytes, true)
		}
		return true
	}
	s.received.responses[key] = &response{at: now}
	s.received.order = append(s.received.order, key)
	return false
}

// forget removes responses that are old, or too many.
func (s *transactions) forget(now time.Time) {
	r := &s.received
	for len(r.order) > 0 {
		first := r.responses[r.order[0]]
		if len(r.order) < maxReceived && now.Sub(first.at) < s.remembered() {
			return
		}
		if first.durable {
			s.writes = append(s.writes, store.Write{Bucket: store.Answers, Key: r.order[0].bytes()})
		}
		delete(r.responses, r.order[0])
		r.order = r.order[1:]
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
