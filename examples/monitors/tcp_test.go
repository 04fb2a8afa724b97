// SPDX-License-Identifier: Apache-2.0

package monitors

// The monitors of TCP. test/e2e has connections of the kernel through them.

import (
	"testing"
	"time"

	"github.com/polycube/polycube/test/pkt"
)

// segments builds frames of one connection from A to B and back.
type segments struct {
	v6  bool
	tag uint16
}

func (s segments) frame(f *pkt.Frame, a, b, a16, b16 string) *pkt.Frame {
	if s.tag != 0 {
		f = f.VLAN(s.tag)
	}
	if s.v6 {
		return f.IPv6(a16, b16)
	}
	return f.IPv4(a, b)
}

func (s segments) to(flags pkt.TCPFlags, payload int) []byte {
	return s.frame(from(), a4, b4, a6, b6).TCP(1000, 80, flags).Payload(payload).Bytes()
}

func (s segments) back(flags pkt.TCPFlags, payload int) []byte {
	return s.frame(back(), b4, a4, b6, a6).TCP(80, 1000, flags).Payload(payload).Bytes()
}

func TestTCPRTT(t *testing.T) {
	t.Parallel()
	each(t, "tcp-rtt", func(b *bench) {
		times := func() (ingress, egress uint64) {
			got := b.Values()
			in, _ := buckets(sum(b.t, got["ingress tcp_round_trip_seconds"]))
			out, _ := buckets(sum(b.t, got["egress tcp_round_trip_seconds"]))
			return all(in), all(out)
		}
		var in, out uint64
		want := func(what string, moreIn, moreOut uint64) {
			b.t.Helper()
			in, out = in+moreIn, out+moreOut
			if gotIn, gotOut := times(); gotIn != in || gotOut != out {
				b.t.Fatalf("%s: %d times on ingress and %d on egress, want %d and %d", what, gotIn, gotOut, in, out)
			}
		}
		begin := time.Now()
		for _, s := range []segments{{}, {v6: true}, {tag: 7}} {
			b.In(s.to(pkt.TCPFlags{SYN: true, Seq: 1000}, 0))
			want("SYN", 0, 0)
			b.Out(s.back(pkt.TCPFlags{SYN: true, ACK: true, Seq: 0xffffffff, Ack: 1001}, 0))
			want("SYN-ACK", 0, 1)
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1001, Ack: 0}, 0))
			want("ACK", 1, 0)
			b.In(s.to(pkt.TCPFlags{ACK: true, PSH: true, Seq: 1001, Ack: 0}, 100))
			b.Out(s.back(pkt.TCPFlags{ACK: true, Seq: 0, Ack: 1100}, 0))
			want("an acknowledgement of a part", 0, 0)
			b.Out(s.back(pkt.TCPFlags{ACK: true, Seq: 0, Ack: 1101}, 0))
			want("the acknowledgement of data", 0, 1)
			b.Out(s.back(pkt.TCPFlags{ACK: true, Seq: 0, Ack: 1101}, 0))
			want("the same again", 0, 0)
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1101, Ack: 0}, 10), s.to(pkt.TCPFlags{ACK: true, Seq: 1101, Ack: 0}, 10))
			b.Out(s.back(pkt.TCPFlags{ACK: true, Seq: 0, Ack: 1111}, 0))
			want("the acknowledgement of what was sent twice", 0, 0)
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1111, Ack: 0}, 10), s.to(pkt.TCPFlags{ACK: true, Seq: 1121, Ack: 0}, 10))
			b.Out(s.back(pkt.TCPFlags{ACK: true, Seq: 0, Ack: 1131}, 50))
			want("one acknowledgement for two", 0, 1)
			b.In(s.to(pkt.TCPFlags{ACK: true, FIN: true, Seq: 1131, Ack: 50}, 0))
			want("FIN, and the acknowledgement of the answer", 1, 0)
			b.Out(s.back(pkt.TCPFlags{RST: true, ACK: true, Seq: 50, Ack: 1132}, 0))
			want("RST", 0, 1)
		}
		_, total := buckets(sum(b.t, b.Values()["egress tcp_round_trip_seconds"]))
		if elapsed := time.Since(begin); total == 0 || time.Duration(total) > elapsed {
			b.t.Errorf("%v together in %v", time.Duration(total), elapsed)
		}
		samples := b.Samples()
		if samples[`tcp_round_trip_seconds_count{leg="network",path="ingress"}`] != float64(in) ||
			samples[`tcp_round_trip_seconds_count{leg="host",path="egress"}`] != float64(out) {
			b.t.Errorf("want %d and %d in %v", in, out, samples)
		}
	})
}

func TestTCPRetransmissions(t *testing.T) {
	t.Parallel()
	each(t, "tcp-retransmissions", func(b *bench) {
		for _, s := range []segments{{}, {v6: true}} {
			syn := s.to(pkt.TCPFlags{SYN: true, Seq: 999}, 0)
			b.In(syn, syn)                                                // one again
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1000, Ack: 1}, 0))     // acknowledges only
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1000, Ack: 1}, 100))   // to 1100
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1100, Ack: 1}, 100))   // to 1200
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1000, Ack: 1}, 100))   // again
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1150, Ack: 1}, 150))   // the first third again, to 1300
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1300, Ack: 1}, 10))    // to 1310
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1309, Ack: 1}, 1))     // keeps alive
			b.In(s.to(pkt.TCPFlags{ACK: true, Seq: 1309, Ack: 1}, 0))     // the same, as Linux does
			b.In(s.to(pkt.TCPFlags{ACK: true, FIN: true, Seq: 1310}, 0))  // to 1311
			b.In(s.to(pkt.TCPFlags{ACK: true, FIN: true, Seq: 1310}, 0))  // again
			b.In(s.to(pkt.TCPFlags{RST: true, Seq: 1311}, 0))             // reset
			b.In(s.to(pkt.TCPFlags{SYN: true, Seq: 5}, 0))                // another connection of the same ports
			b.Out(s.back(pkt.TCPFlags{ACK: true, Seq: 1000, Ack: 1}, 20)) // its own direction
		}
		got := b.Values()
		b.Want("ingress", sum(b.t, got["ingress tcp_traffic"]), `{"segments":22,"bytes":922,"retransmitted_segments":8,
			"retransmitted_bytes":500,"retransmitted_syns":2,"resets":2}`)
		b.Want("egress", sum(b.t, got["egress tcp_traffic"]), `{"segments":2,"bytes":40,"retransmitted_segments":0,
			"retransmitted_bytes":0,"retransmitted_syns":0,"resets":0}`)
		b.Want("the destinations", got["ingress tcp_retransmissions_by_destination"],
			`[{"key":{"destination":"10.0.0.2"},"value":4},{"key":{"destination":"2001:db8::2"},"value":4}]`)
		if counts, _ := buckets(sum(b.t, got["ingress tcp_retransmission_delay_seconds"])); all(counts) != 8 {
			b.t.Errorf("%v delays, want 8", counts)
		}
		b.WantSamples(map[string]float64{
			`tcp_traffic_retransmitted_segments_total{path="ingress"}`:                           8,
			`tcp_retransmissions_by_destination_total{destination="2001:db8::2",path="ingress"}`: 4,
			`tcp_retransmission_delay_seconds_count{path="ingress"}`:                             8,
		})
	})
}
