// SPDX-License-Identifier: Apache-2.0

package conntrack

import "testing"

// event is a segment of a side, and what must become of it.
type event struct {
	from     uint8
	flags    Flag
	seq, ack uint32
	length   uint32
	class    Class
	state    Phase
}

// opened is the handshake of RFC 9293, figure 6: the sides begin with 100 and 300.
var opened = []event{
	{0, SYN, 100, 0, 0, New, SynSent},
	{1, SYN | ACK, 300, 101, 0, Established, SynRecv},
	{0, ACK, 101, 301, 0, Established, Open},
}

// closedByBoth is the normal close of figure 12.
var closedByBoth = append(opened[:3:3],
	event{0, FIN | ACK, 101, 301, 0, Established, FinWait},
	event{1, ACK, 301, 102, 0, Established, CloseWait},
	event{1, FIN | ACK, 301, 102, 0, Established, LastAck},
	event{0, ACK, 102, 302, 0, Established, TimeWait})

func after3(events ...event) []event { return append(opened[:3:3], events...) }

// TestConnectionsOfTheRFC: the figures of RFC 9293, and what it says about segments that do not belong.
func TestConnectionsOfTheRFC(t *testing.T) {
	for _, tt := range []struct {
		name   string
		o      Options
		events []event
	}{
		{"figure 6: three-way handshake, data", Options{}, after3(
			event{0, ACK, 101, 301, 50, Established, Open},
			event{1, ACK, 301, 151, 20, Established, Open})},
		{"figure 7: simultaneous open", Options{}, []event{
			{0, SYN, 100, 0, 0, New, SynSent},
			{1, SYN, 300, 0, 0, Established, SynSent2},
			{0, SYN, 100, 0, 0, Established, SynSent2},
			{0, SYN | ACK, 100, 301, 0, Established, SynRecv},
			{1, SYN | ACK, 300, 101, 0, Established, Open}}},
		{"figure 8: the answer to an old SYN is refused", Options{}, []event{
			{0, SYN, 90, 0, 0, New, SynSent},
			{1, SYN | ACK, 300, 91, 0, Established, SynRecv},
			{0, RST, 91, 0, 0, Established, Closed},
			{0, SYN, 100, 0, 0, New, SynSent},
			{1, SYN | ACK, 400, 101, 0, Established, SynRecv},
			{0, ACK, 101, 401, 0, Established, Open}}},
		{"figure 9: one side has crashed and opens again", Options{}, after3(
			event{0, SYN, 400, 0, 0, New, Open},
			event{1, ACK, 301, 101, 0, Established, Open},
			event{0, RST, 101, 0, 0, Established, Closed},
			event{0, SYN, 400, 0, 0, New, SynSent},
			event{1, SYN | ACK, 900, 401, 0, Established, SynRecv})},
		{"figure 10: an active side makes the other, which has forgotten, reset", Options{}, after3(
			event{1, ACK, 301, 101, 10, Established, Open},
			event{0, RST, 101, 0, 0, Established, Closed})},
		{"the other side has forgotten and answers a new SYN", Options{}, after3(
			event{0, SYN, 5000, 0, 0, New, Open},
			event{1, SYN | ACK, 900, 5001, 0, Established, SynRecv},
			event{0, ACK, 5001, 901, 0, Established, Open})},
		{"a connection in the other direction begins with a reply", Options{}, after3(
			event{1, SYN, 5000, 0, 0, New, Open},
			event{0, SYN | ACK, 900, 5001, 0, Established, SynRecv},
			event{1, ACK, 5001, 901, 0, Established, Open})},
		{"late duplicates of the handshake change nothing", Options{}, after3(
			event{0, SYN, 100, 0, 0, Established, Open},
			event{1, SYN | ACK, 300, 101, 0, Established, Open},
			event{0, ACK, 101, 301, 50, Established, Open})},
		{"figure 12: normal close", Options{}, closedByBoth},
		{"figure 13: simultaneous close", Options{}, after3(
			event{0, FIN | ACK, 101, 301, 0, Established, FinWait},
			event{1, FIN | ACK, 301, 101, 0, Established, LastAck},
			event{0, ACK, 102, 302, 0, Established, LastAck},
			event{1, ACK, 302, 102, 0, Established, TimeWait})},
		{"data after half a close", Options{}, append(closedByBoth[:5:5],
			event{1, ACK, 301, 102, 100, Established, CloseWait},
			event{0, ACK, 102, 401, 0, Established, CloseWait})},
		{"a FIN that data follows was forged", Options{}, after3(
			event{0, FIN | ACK, 101, 301, 0, Established, FinWait},
			event{0, ACK, 101, 301, 50, Established, Open})},
		{"data that arrives after the FIN of its side", Options{}, after3(
			event{0, FIN | ACK, 151, 301, 0, Established, FinWait},
			event{0, ACK, 101, 301, 50, Established, FinWait},
			event{1, ACK, 301, 152, 0, Established, CloseWait})},
		{"the last ACK is lost", Options{}, append(closedByBoth[:7:7],
			event{1, FIN | ACK, 301, 102, 0, Established, TimeWait},
			event{0, ACK, 102, 302, 0, Established, TimeWait})},
		{"ports are reused in TIME_WAIT by a higher number", Options{}, append(closedByBoth[:7:7],
			event{0, SYN, 5000, 0, 0, New, SynSent},
			event{1, SYN | ACK, 9000, 5001, 0, Established, SynRecv},
			event{0, ACK, 5001, 9001, 0, Established, Open})},
		{"a lower number in TIME_WAIT has to be answered", Options{}, append(closedByBoth[:7:7],
			event{0, SYN, 50, 0, 0, New, TimeWait},
			event{1, ACK, 302, 102, 0, Established, TimeWait},
			event{1, SYN | ACK, 9000, 51, 0, Established, SynRecv})},
		{"the server opens in TIME_WAIT", Options{}, append(closedByBoth[:7:7],
			event{1, SYN, 5000, 0, 0, New, SynSent},
			event{0, SYN | ACK, 9000, 5001, 0, Established, SynRecv})},
		{"refused", Options{}, []event{
			{0, SYN, 100, 0, 0, New, SynSent},
			{1, RST | ACK, 0, 101, 0, Established, Closed},
			{0, SYN, 100, 0, 0, New, SynSent}}},
		{"an RST before the reply that acknowledges nothing, or something else", Options{}, []event{
			{0, SYN, 100, 0, 0, New, SynSent},
			{1, RST, 101, 0, 0, Invalid, SynSent},
			{1, RST | ACK, 0, 100, 0, Invalid, SynSent},
			{1, RST | ACK, 0, 102, 0, Invalid, SynSent}}},
		{"RFC 5961: only an exact RST closes", Options{}, after3(
			event{1, RST, 302, 0, 0, Established, Open},
			event{1, RST, 300, 0, 0, Invalid, Open},
			event{1, RST, 301 + 70000, 0, 0, Invalid, Open},
			event{1, RST, 301, 0, 0, Established, Closed})},
		{"an RST after data that is not acknowledged yet", Options{}, after3(
			event{1, ACK, 301, 101, 100, Established, Open},
			event{1, RST | ACK, 401, 101, 0, Established, Closed})},
		{"an RST that acknowledges what was not sent", Options{}, after3(
			event{1, RST | ACK, 301, 102, 0, Invalid, Open},
			event{1, RST | ACK, 301, 101, 0, Established, Closed})},
		{"SYN with data (RFC 7413), acknowledged or not", Options{}, []event{
			{0, SYN, 100, 0, 40, New, SynSent},
			{1, SYN | ACK, 300, 101, 0, Established, SynRecv},
			{0, ACK, 101, 301, 40, Established, Open}}},
		{"wrong answers to a SYN", Options{}, []event{
			{0, SYN, 100, 0, 0, New, SynSent},
			{1, SYN | ACK, 300, 100, 0, Invalid, SynSent},
			{1, SYN | ACK, 300, 102, 0, Invalid, SynSent},
			{1, FIN | ACK, 300, 101, 0, Invalid, SynSent},
			{0, ACK, 101, 301, 0, Invalid, SynSent},
			{1, ACK, 700, 50, 0, Established, SynSent},
			{0, RST, 50, 0, 0, New, SynSent}}},
		{"outside of the windows", Options{}, after3(
			event{0, ACK, 101 + 60001, 301, 1, Invalid, Open},
			event{0, ACK, 101, 302, 1, Invalid, Open},
			event{0, ACK, 1<<32 - 59900, 301, 1, Established, Open},
			event{0, ACK, 101 + 60000, 301, 1, Established, Open})},
		{"outside of the windows, liberal", Options{Liberal: true}, after3(
			event{0, ACK, 101 + 60001, 302, 1, Established, Open},
			event{1, RST, 301 + 160000, 0, 0, Invalid, Open})},
		{"a running connection", Options{}, []event{{0, ACK, 100, 300, 10, Invalid, None}}},
		{"a running connection is picked up", Options{PickUp: true}, []event{
			{0, SYN | ACK, 100, 300, 0, Invalid, None},
			{0, FIN | ACK, 100, 300, 0, Invalid, None},
			{0, RST, 100, 300, 0, Invalid, None},
			{1, ACK, 300, 100, 10, New, Open},
			{1, ACK, 310, 100, 10, New, Open},
			{0, ACK, 100, 320, 0, Established, Open},
			{0, ACK, 100, 321, 0, Invalid, Open},
			{0, RST, 100, 320, 0, Established, Closed}}},
		{"flags that RFC 9293 does not know", Options{PickUp: true, Liberal: true}, []event{
			{0, SYN | FIN, 100, 0, 0, Invalid, None}, {0, SYN | RST, 100, 0, 0, Invalid, None}, {0, FIN | RST, 100, 0, 0, Invalid, None},
			{0, 0, 100, 0, 0, Invalid, None}, {0, FIN, 100, 0, 0, Invalid, None}, {0, FIN | 0x28, 100, 0, 0, Invalid, None},
			{0, SYN | 0xc0, 100, 0, 0, New, SynSent}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for swap := range uint8(2) {
				var s State
				for i, e := range tt.events {
					p := Segment{Seq: e.seq, Ack: e.ack, Length: e.length, Window: 60000, Flags: e.flags, Scale: NoScale}
					if class := s.TCP(e.from^swap, p, tt.o); class != e.class || s.State != e.state {
						t.Fatalf("segment %d, %+v: %v in %v, want %v in %v\n%+v", i, e, class, s.State, e.class, e.state, s)
					}
				}
			}
		})
	}
}

// run applies segments without looking at the results.
func run(o Options, segments ...Segment) *State {
	s := new(State)
	for i, p := range segments {
		s.TCP(uint8(i&1), p, o)
	}
	return s
}

func TestWindowsAreScaledIfBothSidesSaySo(t *testing.T) {
	for _, tt := range []struct {
		name   string
		scales [2]uint8
		limit  uint32
	}{
		{"both", [2]uint8{2, 7}, 1000 << 7},
		{"the opener does not", [2]uint8{NoScale, 7}, 1000},
		{"the other side does not", [2]uint8{2, NoScale}, 1000},
		{"more than 14 is 14", [2]uint8{2, 200}, 1000 << 14},
	} {
		s := run(Options{},
			Segment{Seq: 100, Window: 500, Flags: SYN, Scale: tt.scales[0]},
			Segment{Seq: 300, Ack: 101, Window: 500, Flags: SYN | ACK, Scale: tt.scales[1]},
			Segment{Seq: 101, Ack: 301, Window: 500, Flags: ACK, Scale: NoScale},
			Segment{Seq: 301, Ack: 101, Window: 1000, Flags: ACK, Scale: NoScale})
		for _, beyond := range []uint32{0, 1} {
			p := Segment{Seq: 101 + tt.limit + beyond, Ack: 301, Flags: ACK, Scale: NoScale}
			then := *s
			if class := then.TCP(0, p, Options{}); (class == Invalid) != (beyond == 1) {
				t.Errorf("%s: the segment at %d is %v", tt.name, p.Seq, class)
			}
		}
	}
}

func TestProbesOfAClosedWindowAreValid(t *testing.T) {
	s := run(Options{},
		Segment{Seq: 100, Window: 500, Flags: SYN, Scale: NoScale},
		Segment{Seq: 300, Ack: 101, Flags: SYN | ACK, Scale: NoScale},
		Segment{Seq: 101, Ack: 301, Window: 500, Flags: ACK, Scale: NoScale})
	for _, p := range []Segment{{Seq: 101, Ack: 301, Length: 1, Flags: ACK}, {Seq: 100, Ack: 301, Flags: ACK}} {
		if class := s.TCP(0, p, Options{}); class != Established {
			t.Errorf("%+v is %v", p, class)
		}
	}
}

func TestTimeoutsFollowTheState(t *testing.T) {
	handshake := []Segment{
		{Seq: 100, Window: 500, Flags: SYN, Scale: NoScale}, {Seq: 300, Ack: 101, Window: 500, Flags: SYN | ACK, Scale: NoScale},
		{Seq: 101, Ack: 301, Window: 500, Flags: ACK},
	}
	ack, data := Segment{Seq: 301, Ack: 101, Window: 500, Flags: ACK}, Segment{Seq: 101, Ack: 301, Length: 9, Window: 500, Flags: ACK}
	all := func(more ...Segment) []Segment { return append(handshake[:3:3], more...) }
	for _, tt := range []struct {
		name     string
		o        Options
		segments []Segment
		want     Timeout
	}{
		{"SYN", Options{}, handshake[:1], TCPSynSent},
		{"SYN+ACK", Options{}, handshake[:2], TCPSynRecv},
		{"open", Options{}, handshake, TCPEstablished},
		{"data", Options{}, all(ack, data), TCPUnacknowledged},
		{"acknowledged", Options{}, all(ack, data, Segment{Seq: 301, Ack: 110, Window: 500, Flags: ACK}), TCPEstablished},
		{"retransmitted", Options{MaxRetrans: 2}, all(ack, data, ack, data), TCPUnacknowledged},
		{"retransmitted twice", Options{MaxRetrans: 2}, all(ack, data, ack, data, ack, data), TCPMaxRetrans},
		{"retransmitted, not limited", Options{}, all(ack, data, ack, data, ack, data), TCPUnacknowledged},
		{"FIN", Options{}, all(ack, Segment{Seq: 101, Ack: 301, Window: 500, Flags: FIN | ACK}), TCPFinWait},
		{"reset", Options{}, all(ack, Segment{Seq: 101, Flags: RST}), TCPClose},
	} {
		limits := Timeouts{}
		for i := range limits {
			limits[i] = DefaultTimeouts[i]
		}
		limits[TCPMaxRetrans]-- // else the same as another
		if got := limits.Of(run(tt.o, tt.segments...)); got != limits[tt.want] {
			t.Errorf("%s: %v, want %v", tt.name, got, limits[tt.want])
		}
	}
	never := Timeouts{TCPEstablished: 0, TCPUnacknowledged: 7}
	if got := never.Of(run(Options{}, all(ack, data)...)); got != 7 {
		t.Errorf("a limit that is less than none is %v", got)
	}
	if got := never.Of(run(Options{}, handshake...)); got != 0 {
		t.Errorf("connections that do not expire expire after %v", got)
	}
}

func TestOtherProtocols(t *testing.T) {
	for _, tt := range []struct {
		name  string
		step  func(s *State, from uint8, i int) Class
		sides []uint8
		want  []Class
		state Phase
		limit Timeout
	}{
		{"UDP, no reply", func(s *State, from uint8, _ int) Class { return s.UDP(from) }, []uint8{1, 1}, []Class{New, New}, Unreplied, UDP},
		{"UDP", func(s *State, from uint8, _ int) Class { return s.UDP(from) }, []uint8{1, 0, 1}, []Class{New, Established, Established}, Replied, UDPStream},
		{"others", func(s *State, from uint8, _ int) Class { return s.Other(from) }, []uint8{0, 1}, []Class{New, Established}, Replied, Other},
		{"ping", func(s *State, from uint8, _ int) Class { return s.ICMP(from, from == 0) }, []uint8{0, 1, 0}, []Class{New, Established, Established}, Replied, ICMP},
		{"a reply without a request", func(s *State, from uint8, _ int) Class { return s.ICMP(from, false) }, []uint8{0}, []Class{Invalid}, None, Unlimited},
		{"a reply by who asks", func(s *State, from uint8, i int) Class { return s.ICMP(from, i == 0) }, []uint8{0, 0}, []Class{New, Invalid}, Unreplied, ICMP},
		{"a request by who is asked", func(s *State, from uint8, _ int) Class { return s.ICMP(from, true) }, []uint8{0, 1}, []Class{New, Invalid}, Unreplied, ICMP},
	} {
		var s State
		for i, from := range tt.sides {
			if class := tt.step(&s, from, i); class != tt.want[i] {
				t.Errorf("%s: packet %d is %v, want %v", tt.name, i, class, tt.want[i])
			}
		}
		if s.State != tt.state || s.Timeout != tt.limit {
			t.Errorf("%s: the state is %v with timeout %d, want %v with %d", tt.name, s.State, s.Timeout, tt.state, tt.limit)
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{Invalid.String(): "INVALID", Related.String(): "RELATED", Closed.String(): "CLOSE",
		Open.String(): "ESTABLISHED", SynSent2.String(): "SYN_SENT2", Phase(99).String(): "UNKNOWN"} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
