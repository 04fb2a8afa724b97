// SPDX-License-Identifier: Apache-2.0

package lbrp

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

// balanced are services of both families, each with servers of several weights; all choose by Maglev's table.
func balanced() (services []bpftest.Edit, servers [][]bpftest.Edit) {
	for n, s := range []struct{ words, body, server string }{
		{"10.0.0.100 80 TCP", `{}`, "10.0.2.%d 8080"},
		{"10.0.0.100 53 UDP", `{}`, "10.0.2.%d 53"},
		{"10.0.0.101 443 ALL", `{"affinity":600}`, "10.0.2.%d 8443"},
		{"10.0.0.102 1000 UDP", `{"last-port":1999}`, "10.0.3.%d 11000"},
		{"2001:db8::100 80 TCP", `{}`, "2001:db8:2::%d 8080"},
		{"2001:db8::101 53 ALL", `{"affinity":60}`, "2001:db8:2::%d 53"},
	} {
		services = append(services, bpftest.Edit{Words: "lb service " + s.words, Body: s.body})
		var all []bpftest.Edit
		for i := range 3 + 9*n { // more than 32 have a large table
			words := "lb service " + s.words + " backend " + fmt.Sprintf(s.server, 10+i)
			all = append(all, bpftest.Edit{Words: words, Body: fmt.Sprintf(`{"weight":%d}`, 1+(n+i)%5)})
		}
		servers = append(servers, all)
	}
	return services, servers
}

// tuple is the first packet of a random client to one of the services.
func tuple(r *rand.Rand) []byte {
	client := fmt.Sprintf("10.%d.%d.%d", 16+r.IntN(16), r.IntN(256), r.IntN(256))
	client6 := fmt.Sprintf("2001:db8:1:%x::%x", r.IntN(1<<16), r.IntN(1<<16))
	from := uint16(1024 + r.IntN(60000))
	four := func(vip string) *pkt.Frame { return fromClient().IPv4(client, vip) }
	six := func(vip string) *pkt.Frame { return fromClient().IPv6(client6, vip) }
	switch r.IntN(8) {
	case 0:
		return four("10.0.0.100").TCP(from, 80, syn).Bytes()
	case 1:
		return four("10.0.0.100").UDP(from, 53).Payload(9).Bytes()
	case 2:
		return four("10.0.0.101").TCP(from, 443, syn).Bytes()
	case 3:
		return four("10.0.0.101").UDP(from, 443).Payload(9).Bytes()
	case 4:
		return four("10.0.0.102").UDP(from, uint16(1000+r.IntN(1000))).Payload(9).Bytes()
	case 5:
		return six("2001:db8::100").TCP(from, 80, syn).Bytes()
	case 6:
		return six("2001:db8::101").TCP(from, 53, syn).Bytes()
	}
	return six("2001:db8::101").UDP(from, 53).Payload(9).Bytes()
}

// destination is the address that a frame is sent to.
func destination(frame []byte) []byte {
	if frame[12] == 0x86 {
		return frame[38:54]
	}
	return frame[30:34]
}

func TestTheOrderOfEditsDoesNotMatter(t *testing.T) {
	const tuples = 4000
	r := rand.New(rand.NewPCG(repeat.Seed(t), 3))
	services, servers := balanced()
	var machines [2]*bpftest.Lab
	for i := range machines {
		l := bpftest.New(t, bpftest.Options{Hosts: 2})
		l.Create("lbrp", "lb", `{`+twoPorts+`}`)
		l.CreateShuffled(r, services, servers)
		machines[i] = l
	}
	var frames [][]byte
	for range tuples {
		frames = append(frames, tuple(r))
	}
	seen := map[string]bool{}
	for n, frame := range bpftest.SameAnswers(t, r, "veth1", machines, frames) {
		seen[fmt.Sprintf("%x of %x", destination(frame), destination(frames[n]))] = true
	}
	want := 0
	for _, all := range servers {
		want += len(all)
	}
	if len(seen) < want/2 {
		t.Errorf("%d tuples went to %d pairs of service and server, of %d", tuples, len(seen), want)
	}
}
