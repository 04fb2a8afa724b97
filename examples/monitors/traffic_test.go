// SPDX-License-Identifier: Apache-2.0

package monitors

// The monitors that count packets of any kind.

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/pkt"
)

func TestTopTalkers(t *testing.T) {
	t.Parallel()
	each(t, "top-talkers", func(b *bench) {
		udp := from().IPv4(a4, b4).UDP(1000, 2000).Payload(100).Bytes() // 142 bytes
		other := from().IPv4(a4, b4).UDP(5, 6).Payload(8).Bytes()       // 50
		tagged := from().VLAN(7).IPv4(a4, b4).UDP(1, 2).Payload(100).Bytes()
		tcp6 := from().IPv6(a6, b6).TCP(1, 2, pkt.TCPFlags{SYN: true}).Bytes() // 74
		later := from().IPv4(a4, b4, pkt.IPv4Options{Offset: 10}).Protocol(17).Payload(16).Bytes()
		b.In(udp, udp, other, tagged, tcp6, later)
		b.In(from().ARPRequest(macA, a4, b4).Bytes())
		b.Out(back().IPv4(b4, a4).UDP(2000, 1000).Payload(10).Bytes())
		got := b.Values()
		b.Want("ingress", got["ingress talkers"], fmt.Sprintf(`[
			{"key":{"source":"10.0.0.1","destination":"10.0.0.2","vlan":65535,"protocol":17},"value":{"packets":4,"bytes":%d}},
			{"key":{"source":"10.0.0.1","destination":"10.0.0.2","vlan":7,"protocol":17},"value":{"packets":1,"bytes":%d}},
			{"key":{"source":"2001:db8::1","destination":"2001:db8::2","vlan":65535,"protocol":6},"value":{"packets":1,"bytes":74}}]`,
			2*142+50+len(later), len(tagged)))
		b.Want("egress", got["egress talkers"],
			`[{"key":{"source":"10.0.0.2","destination":"10.0.0.1","vlan":65535,"protocol":17},"value":{"packets":1,"bytes":52}}]`)
		b.WantSamples(map[string]float64{
			`talkers_packets_total{destination="10.0.0.2",path="ingress",protocol="17",source="10.0.0.1",vlan="65535"}`:    4,
			`talkers_bytes_total{destination="2001:db8::2",path="ingress",protocol="6",source="2001:db8::1",vlan="65535"}`: 74,
			`talkers_bytes_total{destination="10.0.0.1",path="egress",protocol="17",source="10.0.0.2",vlan="65535"}`:       52,
		})
	})
}

// heavy is an entry of a list of the heaviest keys.
type heavy struct {
	Key struct {
		Address string
		Number  uint64
	}
	Sum, Error uint64
}

func TestHeavyHitters(t *testing.T) {
	t.Parallel()
	each(t, "heavy-hitters", func(b *bench) {
		big := from().IPv4(a4, b4).UDP(1000, 443).Payload(1000).Bytes()
		const bigs, lights = 100, 300
		for range bigs {
			b.In(big)
		}
		for i := range lights {
			source := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}).String()
			b.In(from().IPv4(source, "10.2.0.1").UDP(1000, uint16(1000+i)).Payload(10).Bytes())
		}
		b.In(from().IPv6(a6, b6).Echo(1, 1).Bytes()) // without ports: no service
		b.Out(back().IPv6(b6, a6).UDP(53, 9).Payload(12).Bytes())
		got := b.Values()
		for metric, want := range map[string]struct {
			address string
			number  uint64
		}{"heavy_source_bytes": {a4, 0}, "heavy_service_bytes": {b4, 443}} {
			var list []heavy
			decode(b.t, asText(got["ingress "+metric]), &list)
			const bytes = bigs * 1042
			if len(list) < 100 || list[0].Key.Address != want.address || list[0].Key.Number != want.number || list[0].Sum < bytes ||
				list[0].Sum-list[0].Error > bytes {
				b.t.Errorf("%s: %d keys, the first of them %+v, want %v with %d bytes", metric, len(list), list[:min(len(list), 3)], want, bytes)
			}
			for i := range list {
				if i > 0 && list[i].Sum > list[i-1].Sum {
					b.t.Errorf("%s: the list is not sorted: %+v", metric, list)
					break
				}
			}
		}
		b.Want("egress", got["egress heavy_service_bytes"], `[{"key":{"address":"2001:db8::1","number":9},"sum":74,"error":0}]`)
		b.Want("the second reading", b.Values()["ingress heavy_source_bytes"], `[]`)
	})
}

func TestDistinctHosts(t *testing.T) {
	t.Parallel()
	each(t, "distinct-hosts", func(b *bench) {
		udp := func(source string, port uint16) []byte { return from().IPv4(source, b4).UDP(port, 9).Bytes() }
		// The hash has a random seed: in 0.4 % of all rounds, two of the keys share a register, and count as one.
		const rounds, enough = 5, 3
		right := map[string]int{}
		for round := range byte(rounds) {
			one, two := fmt.Sprintf("10.0.%d.1", round), fmt.Sprintf("10.0.%d.3", round)
			b.In(udp(one, 1), udp(one, 1), udp(one, 2), udp(two, 1))
			b.In(from().IPv6(fmt.Sprintf("2001:db8:%d::1", round), b6).UDP(1, 9).Bytes(), from().VLAN(5).IPv4(one, b4).UDP(1, 9).Bytes())
			got := b.Values()
			for metric, want := range map[string]uint64{"distinct_sources": 3, "distinct_destinations": 2, "distinct_flows": 5} {
				if n := number(got["ingress "+metric]); n == want {
					right[metric]++
				} else {
					b.t.Logf("%s is %d, want %d", metric, n, want)
				}
				if n := number(got["egress "+metric]); n != 0 {
					b.t.Errorf("%s on egress is %d, want 0", metric, n)
				}
			}
		}
		for _, metric := range []string{"distinct_sources", "distinct_destinations", "distinct_flows"} {
			if right[metric] < enough {
				b.t.Errorf("%s was right in %d of %d rounds", metric, right[metric], rounds)
			}
		}
		const many = 1000
		for i := range many {
			b.In(udp(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}).String(), 1))
		}
		// Five times the standard error of 1.6 %.
		if n := number(b.Values()["ingress distinct_sources"]); n < many-80 || n > many+80 {
			b.t.Errorf("%d sources, want about %d", n, many)
		}
	})
}

func TestPacketSize(t *testing.T) {
	t.Parallel()
	each(t, "packet-size", func(b *bench) {
		sized := func(n int) []byte { return from().IPv4(a4, b4).UDP(1, 2).Payload(n - 42).Bytes() }
		b.In(sized(63), sized(64), sized(127), sized(128), sized(1514))
		b.In(from().VLAN(9).IPv6(a6, b6).TCP(1, 2, pkt.TCPFlags{}).Bytes()) // 78
		b.In(from().ARPRequest(macA, a4, b4).Bytes())                       // 42
		b.In(from().IPv4(a4, b4).Protocol(200).Payload(10).Bytes())         // 44
		type histogram struct {
			counts map[int]uint64
			sum    uint64
		}
		want := map[string]histogram{
			"IPV4 UDP":   {map[int]uint64{6: 1, 7: 2, 8: 1, 11: 1}, 63 + 64 + 127 + 128 + 1514},
			"IPV6 TCP":   {map[int]uint64{7: 1}, 78},
			"OTHER NONE": {map[int]uint64{6: 1}, 42},
			"IPV4 ELSE":  {map[int]uint64{6: 1}, 44},
		}
		entries, _ := b.Values()["ingress frame_size_bytes"].([]any)
		if len(entries) != len(want) {
			b.t.Errorf("%d kinds of packets, want %d: %v", len(entries), len(want), entries)
		}
		for _, e := range entries {
			entry := e.(map[string]any)
			key := entry["key"].(map[string]any)
			kind := fmt.Sprint(key["network"], " ", key["transport"])
			counts, sum := buckets(entry["value"])
			if w := want[kind]; !maps.Equal(counts, w.counts) || sum != w.sum {
				b.t.Errorf("%s: %v, sum %d, want %v", kind, counts, sum, w)
			}
		}
		b.WantSamples(map[string]float64{
			`frame_size_bytes_bucket{le="63.0",network="IPV4",path="ingress",transport="UDP"}`:  1,
			`frame_size_bytes_bucket{le="127.0",network="IPV4",path="ingress",transport="UDP"}`: 3,
			`frame_size_bytes_bucket{le="+Inf",network="IPV4",path="ingress",transport="UDP"}`:  5,
			`frame_size_bytes_sum{network="IPV4",path="ingress",transport="UDP"}`:               1896,
			`frame_size_bytes_count{network="IPV4",path="ingress",transport="UDP"}`:             5,
		})
	})
}

func TestInterArrival(t *testing.T) {
	t.Parallel()
	each(t, "inter-arrival", func(b *bench) {
		const packets = 50
		begin := time.Now()
		for range packets {
			b.In(from().IPv4(a4, b4).UDP(1, 2).Bytes())
		}
		elapsed := time.Since(begin)
		b.Out(back().IPv4(b4, a4).UDP(1, 2).Bytes())
		got := b.Values()
		counts, total := buckets(sum(b.t, got["ingress inter_arrival_seconds"]))
		if all(counts) != packets-1 || total == 0 || time.Duration(total) > elapsed {
			b.t.Errorf("%d times, %v together, want %d in %v", all(counts), time.Duration(total), packets-1, elapsed)
		}
		if counts, _ := buckets(sum(b.t, got["egress inter_arrival_seconds"])); all(counts) != 0 {
			b.t.Errorf("there is a time before the first packet: %v", counts)
		}
		samples := b.Samples()
		if n := samples[`inter_arrival_seconds_count{path="ingress"}`]; n != packets-1 {
			b.t.Errorf("%v samples: %v", n, samples)
		}
		if s := samples[`inter_arrival_seconds_sum{path="ingress"}`]; s <= 0 || s > elapsed.Seconds() {
			b.t.Errorf("%v s of %v", s, elapsed)
		}
	})
}

func TestDDoSFeatures(t *testing.T) {
	t.Parallel()
	each(t, "ddos-features", func(b *bench) {
		tcp := func(f pkt.TCPFlags) []byte { return from().IPv4(a4, b4).TCP(1, 80, f).Payload(60).Bytes() } // 114 bytes
		frames := [][]byte{
			tcp(pkt.TCPFlags{SYN: true}), tcp(pkt.TCPFlags{SYN: true}), tcp(pkt.TCPFlags{SYN: true, ACK: true}), tcp(pkt.TCPFlags{ACK: true}),
			tcp(pkt.TCPFlags{ACK: true, PSH: true}), tcp(pkt.TCPFlags{RST: true}), tcp(pkt.TCPFlags{FIN: true, ACK: true}),
			tcp(pkt.TCPFlags{}), tcp(pkt.TCPFlags{SYN: true, FIN: true}), tcp(pkt.TCPFlags{FIN: true}),
			from().IPv4("10.0.0.9", b4).UDP(123, 5000).Payload(100).Bytes(), // an answer of NTP, 142 bytes
			from().IPv6(a6, b6).UDP(5, 6).Payload(100).Bytes(),              // 162
			from().IPv4(a4, b4, pkt.IPv4Options{Offset: 5}).Protocol(17).Payload(100).Bytes(),
			from().IPv4(a4, b4).Echo(1, 1).Bytes(), // 42, small
			from().IPv4(a4, b4).Protocol(47).Payload(100).Bytes(),
			from().ARPRequest(macA, a4, b4).Bytes(), // 42, small
		}
		b.In(frames...)
		bytes := 0
		for _, f := range frames {
			bytes += len(f)
		}
		got := b.Values()
		b.Want("the features", sum(b.t, got["ingress ddos_features"]), fmt.Sprintf(`{"packets":16,"bytes":%d,"small_packets":2,"ipv4":14,"ipv6":1,
			"not_ip":1,"fragments":1,"tcp":10,"udp":3,"icmp":1,"other_protocols":1,"tcp_syn":3,"tcp_syn_ack":1,"tcp_ack":1,"tcp_rst":1,"tcp_fin":3,
			"tcp_bad_flags":3,"udp_amplifiers":1}`, bytes))
		b.Want("the destinations", got["ingress ddos_destination"], fmt.Sprintf(`[
			{"key":{"destination":"10.0.0.2"},"value":{"packets":14,"bytes":%d,"tcp_syn":3,"udp":2,"icmp":1,"fragments":1}},
			{"key":{"destination":"2001:db8::2"},"value":{"packets":1,"bytes":162,"tcp_syn":0,"udp":1,"icmp":0,"fragments":0}}]`, bytes-162-42))
		for metric, want := range map[string]uint64{"sources": 3, "destinations": 2, "ports": 3} {
			if n := number(got["ingress ddos_distinct_"+metric]); n != want {
				b.t.Errorf("%d %s, want %d", n, metric, want)
			}
		}
		again := b.Values()
		b.Want("destinations of the second reading", again["ingress ddos_destination"], `[]`)
		if text := asText(sum(b.t, again["ingress ddos_features"])); strings.ContainsAny(text, "123456789") && !onlyZeros(text) {
			b.t.Errorf("the second reading has %s", text)
		}
	})
}

// onlyZeros reports whether all numbers of a JSON object are 0; names may have digits.
func onlyZeros(text string) bool {
	for _, part := range strings.Split(strings.Trim(text, "{}"), ",") {
		if !strings.HasSuffix(part, ":0") {
			return false
		}
	}
	return true
}
