// SPDX-License-Identifier: Apache-2.0

package monitors

// The monitors that read names from packets: DNS and TLS.

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/pkt"
)

// dnsName is a name on the wire.
func dnsName(name string) []byte {
	var out []byte
	for label := range strings.SplitSeq(name, ".") {
		if label != "" {
			out = append(append(out, byte(len(label))), label...)
		}
	}
	return append(out, 0)
}

// dnsMessage is a message with one question.
func dnsMessage(id uint16, response bool, code byte, name []byte, kind uint16) []byte {
	out := []byte{byte(id >> 8), byte(id), 1, code, 0, 1, 0, 0, 0, 0, 0, 0}
	if response {
		out[2] |= 0x80
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(append(out, name...), kind), 1)
}

func TestDNS(t *testing.T) {
	t.Parallel()
	each(t, "dns", func(b *bench) {
		ask := func(id uint16, name string, kind uint16) []byte {
			return from().IPv4(a4, b4).UDP(4000, 53).Data(dnsMessage(id, false, 0, dnsName(name), kind)).Bytes()
		}
		answer := func(id uint16, code byte) []byte {
			return back().IPv4(b4, a4).UDP(53, 4000).Data(dnsMessage(id, true, code, dnsName("www.example.org"), 1)).Bytes()
		}
		long := strings.Repeat("a", 40) + "." + strings.Repeat("b", 40) + ".example"
		raw := func(name []byte) []byte {
			return from().IPv4(a4, b4).UDP(4001, 53).Data(dnsMessage(9, false, 0, name, 1)).Bytes()
		}
		b.In(ask(1, "www.example.org", 1), ask(2, "wWw.EXAMPLE.org", 1), ask(3, "www.example.org", 28), ask(4, "", 2), ask(5, long, 65))
		b.In(from().VLAN(3).IPv6(a6, b6).UDP(4000, 53).Data(dnsMessage(6, false, 0, dnsName("v6.example"), 1234)).Bytes())
		b.In(raw(dnsName("a\x00\xff\"\\ b.example")))
		for _, bad := range [][]byte{
			{0xc0, 12},              // a pointer
			{5, 'a', 'b'},           // cut off
			append([]byte{70}, 'a'), // a length that is none
		} {
			b.In(raw(bad))
		}
		two := dnsMessage(7, false, 0, dnsName("two.example"), 1)
		two[5] = 2
		b.In(from().IPv4(a4, b4).UDP(4002, 53).Data(two).Bytes())
		b.In(from().IPv4(a4, b4).UDP(4002, 54).Data(dnsMessage(7, false, 0, dnsName("other.example"), 1)).Bytes())
		b.In(from().IPv4(a4, b4).TCP(4002, 53, pkt.TCPFlags{}).Data(dnsMessage(7, false, 0, dnsName("tcp.example"), 1)).Bytes())
		b.Out(answer(1, 0), answer(2, 3), answer(2, 3), answer(77, 5), answer(3, 12))
		got := b.Values()
		b.Want("the queries", got["ingress dns_queries"], fmt.Sprintf(`[
			{"key":{"name":"www.example.org","type":"A"},"value":2},
			{"key":{"name":"www.example.org","type":"AAAA"},"value":1},
			{"key":{"name":"","type":"NS"},"value":1},
			{"key":{"name":%q,"type":"HTTPS"},"value":1},
			{"key":{"name":"v6.example","type":1234},"value":1},
			{"key":{"name":"a??\"\\?b.example","type":"A"},"value":1}]`, long[:63]))
		b.Want("the responses", got["egress dns_responses"], `[{"key":{"code":"NOERROR"},"value":1},{"key":{"code":"NXDOMAIN"},"value":2},
			{"key":{"code":"REFUSED"},"value":1},{"key":{"code":12},"value":1}]`)
		b.Want("responses on ingress", got["ingress dns_responses"], `[]`)
		// Of id 1, 2 and 3; the second answer to 2 and that to 77 have no query.
		if counts, _ := buckets(sum(b.t, got["egress dns_response_seconds"])); all(counts) != 3 {
			b.t.Errorf("%v response times, want 3", counts)
		}
		b.WantSamples(map[string]float64{
			`dns_queries_total{name="www.example.org",path="ingress",type="A"}`: 2,
			`dns_responses_total{code="NXDOMAIN",path="egress"}`:                2,
			`dns_response_seconds_count{path="egress"}`:                         3,
		})
	})
}

// clientHello is the first message of Go's TLS client.
func clientHello(t *testing.T, server string) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		// The handshake fails when the test has read its first message.
		_ = tls.Client(ours, &tls.Config{ServerName: server, InsecureSkipVerify: server == ""}).Handshake()
	}()
	defer ours.Close()
	buffer := make([]byte, 4096)
	n, err := theirs.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return buffer[:n]
}

// hello is a ClientHello with extensions, which are given with their headers.
func hello(extensions ...[]byte) []byte {
	var all []byte
	for _, e := range extensions {
		all = append(all, e...)
	}
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0)
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(all))), all...)
	out := append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{22, 3, 1, byte(len(out) >> 8), byte(len(out))}, out...)
}

func extension(kind uint16, data []byte) []byte {
	return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, kind), uint16(len(data))), data...)
}

func serverName(name string) []byte {
	entry := append(binary.BigEndian.AppendUint16([]byte{0}, uint16(len(name))), name...)
	return extension(0, append(binary.BigEndian.AppendUint16(nil, uint16(len(entry))), entry...))
}

func TestTLSSNI(t *testing.T) {
	t.Parallel()
	each(t, "tls-sni", func(b *bench) {
		send := func(data []byte) {
			b.t.Helper()
			b.In(from().IPv4(a4, b4).TCP(4000, 443, pkt.TCPFlags{ACK: true, PSH: true, Seq: 1}).Data(data).Bytes())
		}
		send(clientHello(b.t, "www.example.org"))
		b.In(from().VLAN(4).IPv6(a6, b6).TCP(4000, 8443, pkt.TCPFlags{ACK: true}).Data(clientHello(b.t, "WWW.example.org")).Bytes())
		send(clientHello(b.t, "")) // without a name
		many := make([][]byte, 0, 40)
		for i := range 20 {
			many = append(many, extension(uint16(1000+i), make([]byte, i)))
		}
		send(hello(append(many, serverName("last.example"))...))
		send(hello())
		send(hello(serverName(strings.Repeat("x", 100))))
		send(hello(serverName("a\x00\xffb")))
		whole := hello(extension(5, make([]byte, 30)), serverName("cut.example"))
		send(whole[:len(whole)-5]) // ends in the name
		send(whole[:60])           // ends in the extensions
		for i := range 20 {
			many = append(many, extension(uint16(2000+i), nil))
		}
		send(hello(append(many, serverName("too.many"))...))
		send(hello(extension(0, []byte{0, 4, 1, 0, 1, 'x'}))) // a name of another type
		notHello := hello(serverName("not.hello"))
		notHello[5] = 2
		send(notHello)
		send([]byte("GET / HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: a client of HTTP\r\n\r\n"))
		got := b.Values()
		b.Want("the servers", got["ingress tls_servers"], fmt.Sprintf(`[
			{"key":{"name":"www.example.org"},"value":2},{"key":{"name":"last.example"},"value":1},
			{"key":{"name":%q},"value":1},{"key":{"name":"a??b"},"value":1}]`, strings.Repeat("x", 63)))
		b.Want("the hellos", sum(b.t, got["ingress tls_hellos"]), `{"named":5,"nameless":2,"incomplete":4}`)
		b.WantSamples(map[string]float64{
			`tls_servers_total{name="www.example.org",path="ingress"}`: 2,
			`tls_hellos_named_total{path="ingress"}`:                   5,
		})
	})
}
