// SPDX-License-Identifier: Apache-2.0

package n4

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/smf"
)

// raw is a socket that sends and receives bytes.
type raw struct {
	*net.UDPConn
	t testing.TB
}

func (b *bench) raw(at netip.AddrPort) raw {
	b.t.Helper()
	c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(at), net.UDPAddrFromAddrPort(b.Addr()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return raw{c, b.t}
}

// exchange sends bytes and returns the bytes of the response.
func (r raw) exchange(b []byte) []byte {
	r.t.Helper()
	if _, err := r.Write(b); err != nil {
		r.t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	buffer := make([]byte, 65536)
	n, err := r.Read(buffer)
	if err != nil {
		r.t.Fatal(err)
	}
	return buffer[:n]
}

func bytesOf(t testing.TB, m message.Message) []byte {
	t.Helper()
	b := make([]byte, m.MarshalLen())
	if err := m.MarshalTo(b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestARepeatedRequestHasTheSameResponse(t *testing.T) {
	b := start(t, func(c *Config) { c.T1 = time.Minute })
	at := netip.AddrPortFrom(loopback(), Port)
	r := b.raw(at)
	node := ie.NewNodeIDHeuristic(at.Addr().String())
	r.exchange(bytesOf(t, message.NewAssociationSetupRequest(1, node, ie.NewRecoveryTimeStamp(time.Now()))))
	list := append([]*ie.IE{node, ie.NewFSEID(7, at.Addr().AsSlice(), nil)}, plain()...)
	request := bytesOf(t, message.NewSessionEstablishmentRequest(0, 0, 0, 2, 0, list...))
	first, second := r.exchange(request), r.exchange(request)
	if !bytes.Equal(first, second) || len(first) < 20 {
		t.Errorf("%x, then %x", first, second)
	}
	if st := b.status(); st.Sessions != 1 || st.Repeated != 1 {
		t.Errorf("%+v", st)
	}
}

func TestARequestIsSentAgainUntilItIsGivenUp(t *testing.T) {
	at := netip.AddrPortFrom(loopback(), Port)
	b := start(t, func(c *Config) { c.Peers, c.N1, c.Heartbeat = []netip.AddrPort{at}, 3, time.Hour })
	eventually(t, "no response", func() bool { return len(b.status().Asked) == 1 })
	if got := b.status().Asked[0]; got != (MessageCount{"association-setup", 0, 1}) || b.status().Pending != 0 {
		t.Errorf("%+v", got)
	}
}

func TestRetransmissionsHaveTheSameSequenceNumber(t *testing.T) {
	b := start(t, func(c *Config) { c.N1 = 3 })
	m := b.smf()
	m.Answer(func(r message.Message) message.Message {
		if r.MessageType() == message.MsgTypeSessionReportRequest {
			return nil
		}
		return m.Accept(r)
	})
	b.establish1(m, measured(smf.URR{Triggers: [2]byte{2}, Threshold: 10})...)
	b.data.count(b.data.row(t), 20, 0)
	times := map[uint32]int{}
	for range 4 {
		times[b.await(m, "a report", func(r message.Message) bool { return r.MessageType() == message.MsgTypeSessionReportRequest }).Sequence()]++
	}
	if len(times) != 1 {
		t.Errorf("sequence numbers %v", times)
	}
	m.Answer(m.Accept)
	b.acknowledged()
}

func TestMessagesThatAreNoRequests(t *testing.T) {
	b := start(t, nil)
	r := b.raw(netip.AddrPortFrom(loopback(), Port))
	if got := r.exchange([]byte{0x40, 50, 0, 4, 0, 0, 9, 0}); got[1] != message.MsgTypeVersionNotSupportedResponse || got[6] != 9 {
		t.Errorf("version 2: %x", got)
	}
	for _, tt := range []struct {
		name  string
		bytes []byte
		cause uint8
	}{
		{"a length beyond the datagram", []byte{0x20, 5, 0, 99, 0, 0, 1, 0}, ie.CauseInvalidLength},
		{"half an IE", []byte{0x20, 5, 0, 6, 0, 0, 2, 0, 0, 60}, ie.CauseInvalidLength},
		{"an IE that is longer than the message", []byte{0x20, 5, 0, 8, 0, 0, 3, 0, 0, 60, 0, 9}, ie.CauseInvalidLength},
		{"no node ID", []byte{0x20, 5, 0, 4, 0, 0, 4, 0}, ie.CauseMandatoryIEMissing},
		{"an empty node ID", []byte{0x20, 5, 0, 8, 0, 0, 5, 0, 0, 60, 0, 0}, ie.CauseMandatoryIEIncorrect},
	} {
		got, err := message.ParseAssociationSetupResponse(r.exchange(tt.bytes))
		if err != nil {
			t.Fatal(err)
		}
		if cause, err := got.Cause.Cause(); err != nil || cause != tt.cause {
			t.Errorf("%s: cause %d, error %v", tt.name, cause, err)
		}
	}
	if got := r.exchange(bytesOf(t, message.NewPFDManagementRequest(9))); got[1] != message.MsgTypePFDManagementResponse {
		t.Errorf("PFD management: %x", got)
	}
	// None of these has a response.
	for _, bytes := range [][]byte{{}, {0x20}, {0x20, 1, 0, 4, 0, 0, 1, 0}, {0x20, 200, 0, 4, 0, 0, 1, 0}, {0x20, 2, 0, 4, 0, 0, 1, 0}, {0x21, 50, 0, 4, 0, 0, 1, 0}} {
		if _, err := r.Write(bytes); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.exchange(bytesOf(t, message.NewHeartbeatRequest(77, ie.NewRecoveryTimeStamp(time.Now()), nil))); got[1] != message.MsgTypeHeartbeatResponse || got[6] != 77 {
		t.Errorf("heartbeat: %x", got)
	}
}

func TestNestingCostsNothing(t *testing.T) {
	b := start(t, nil)
	r := b.raw(netip.AddrPortFrom(loopback(), Port))
	const depth = 15000
	nested := make([]byte, 8, 8+4*depth)
	copy(nested, []byte{0x20, 5, 0, 0, 0, 0, 1, 0})
	for i := range depth {
		rest := 4 * (depth - 1 - i)
		nested = append(nested, 0, byte(ie.CreatePDR), byte(rest>>8), byte(rest))
	}
	nested[2], nested[3] = byte((len(nested)-4)>>8), byte(len(nested)-4)
	began := time.Now()
	for i := range 100 {
		nested[6] = byte(i)
		if got := r.exchange(nested); got[1] != message.MsgTypeAssociationSetupResponse {
			t.Fatalf("%x", got)
		}
	}
	t.Logf("100 messages in %v", time.Since(began))
}

func TestManyRequestsAreOneBatch(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	_, before := b.data.work()
	b.together(m, 100, nil)
	puts, after := b.data.work()
	if puts != 101 || after != before+1 {
		t.Errorf("%d sessions in %d batches", puts, after-before)
	}
}
