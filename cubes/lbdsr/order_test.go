// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Several machines with the same configuration, behind one router: each sends a tuple to the same server, whatever the
// order in which the configuration was made.

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// balanced are services of both families and all ways to tell flows apart, each with servers of several weights.
func balanced() (services []bpftest.Edit, servers [][]bpftest.Edit) {
	for n, s := range []struct{ words, body string }{
		{"10.0.0.100 80 TCP", `{}`},
		{"10.0.0.100 53 UDP", `{"select":"HOSTS"}`},
		{"10.0.0.101 0 ALL", `{"select":"SOURCE"}`},
		{"10.0.0.102 443 UDP", `{"select":"QUIC"}`},
		{"2001:db8::100 80 TCP", `{}`},
		{"2001:db8::101 53 ALL", `{"select":"SOURCE"}`},
		{"2001:db8::102 443 UDP", `{"select":"QUIC"}`},
	} {
		services = append(services, bpftest.Edit{Words: "lb service " + s.words, Body: s.body})
		var all []bpftest.Edit
		for i := range 3 + 4*n {
			id := ""
			if s.body == `{"select":"QUIC"}` && i%2 == 0 {
				id = fmt.Sprintf(`,"quic-server-id":"01:02:03:%02x"`, i)
			}
			words := fmt.Sprintf("lb service %s server 02:00:00:00:%02x:%02x", s.words, 3+n, i)
			all = append(all, bpftest.Edit{Words: words, Body: fmt.Sprintf(`{"weight":%d%s}`, 1+(n+i)%5, id)})
		}
		servers = append(servers, all)
	}
	return services, servers
}

// tuple is the first packet of a random client to one of the services, and its name.
func tuple(r *rand.Rand) (frame []byte, service string) {
	four := fmt.Sprintf("10.%d.%d.%d", 16+r.IntN(16), r.IntN(256), r.IntN(256))
	six := fmt.Sprintf("2001:db8:1:%x::%x", r.IntN(1<<16), r.IntN(1<<16))
	from := uint16(1024 + r.IntN(60000))
	to := func(vip string) *pkt.Frame {
		if vip[0] == '2' {
			return client().IPv6(six, vip)
		}
		return client().IPv4(four, vip)
	}
	// A connection ID: of a server, which some of the services have, or of none.
	quic := append([]byte{0x40, 1<<5 | 8, 1, 2, 3, byte(r.IntN(40))}, make([]byte, 40)...)
	switch r.IntN(10) {
	case 0:
		return to("10.0.0.100").TCP(from, 80, syn).Bytes(), "TCP"
	case 1:
		return to("10.0.0.100").UDP(from, 53).Payload(9).Bytes(), "HOSTS"
	case 2:
		return to("10.0.0.101").TCP(from, uint16(1+r.IntN(1000)), syn).Bytes(), "SOURCE"
	case 3:
		return to("10.0.0.101").UDP(from, uint16(1+r.IntN(1000))).Payload(9).Bytes(), "SOURCE"
	case 4:
		return to("10.0.0.101").Protocol(pkt.ProtoESP).Payload(20).Bytes(), "SOURCE"
	case 5:
		return to("10.0.0.102").UDP(from, 443).Data(quic).Bytes(), "QUIC"
	case 6:
		return to("2001:db8::100").TCP(from, 80, syn).Bytes(), "TCP of IPv6"
	case 7:
		return to("2001:db8::101").TCP(from, 53, syn).Bytes(), "SOURCE of IPv6"
	case 8:
		return to("2001:db8::101").UDP(from, 53).Payload(9).Bytes(), "SOURCE of IPv6"
	}
	return to("2001:db8::102").UDP(from, 443).Data(quic).Bytes(), "QUIC of IPv6"
}

func TestTheOrderOfEditsDoesNotMatter(t *testing.T) {
	const tuples = 3000
	r := rand.New(rand.NewPCG(repeat.Seed(t), 2))
	services, servers := balanced()
	var machines [2]*bpftest.Lab
	for i := range machines {
		l := bpftest.New(t, bpftest.Options{Hosts: 2})
		l.Create("lbdsr", "lb", `{`+ports+`,"quic-config":[{"id":1,"server-id-length":4}]}`)
		l.CreateShuffled(r, services, servers)
		machines[i] = l
	}
	var frames [][]byte
	var names []string
	for range tuples {
		frame, name := tuple(r)
		frames, names = append(frames, frame), append(names, name)
	}
	seen := map[string]map[string]bool{}
	for n, frame := range bpftest.SameAnswers(t, r, "veth1", machines, frames) {
		if seen[names[n]] == nil {
			seen[names[n]] = map[string]bool{}
		}
		seen[names[n]][string(frame[:6])] = true
	}
	for n, name := range []string{"TCP", "HOSTS", "SOURCE", "QUIC", "TCP of IPv6", "SOURCE of IPv6", "QUIC of IPv6"} {
		if count := len(seen[name]); count < len(servers[n])/2 {
			t.Errorf("%s: tuples went to %d of %d servers", name, count, len(servers[n]))
		}
	}
}
