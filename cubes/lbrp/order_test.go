// SPDX-License-Identifier: Apache-2.0

package lbrp

// Several machines with the same configuration, behind one router: each sends a tuple to the same server, whatever the
// order in which the configuration was made.

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// edit is what creates an entry and what removes it.
type edit struct{ words, body string }

// balanced are services of both families, each with servers of several weights; all choose by Maglev's table.
func balanced() (services []edit, servers [][]edit) {
	for n, s := range []struct{ words, body, server string }{
		{"10.0.0.100 80 TCP", `{}`, "10.0.2.%d 8080"},
		{"10.0.0.100 53 UDP", `{}`, "10.0.2.%d 53"},
		{"10.0.0.101 443 ALL", `{"affinity":600}`, "10.0.2.%d 8443"},
		{"10.0.0.102 1000 UDP", `{"last-port":1999}`, "10.0.3.%d 11000"},
		{"2001:db8::100 80 TCP", `{}`, "2001:db8:2::%d 8080"},
		{"2001:db8::101 53 ALL", `{"affinity":60}`, "2001:db8:2::%d 53"},
	} {
		services = append(services, edit{"lb service " + s.words, s.body})
		var all []edit
		for i := range 3 + 9*n { // more than 32 have a large table
			words := "lb service " + s.words + " backend " + fmt.Sprintf(s.server, 10+i)
			all = append(all, edit{words, fmt.Sprintf(`{"weight":%d}`, 1+(n+i)%5)})
		}
		servers = append(servers, all)
	}
	return services, servers
}

// configure makes services and servers in a random order, with detours: some come, go and come again, or have another weight first.
func configure(l *bpftest.Lab, r *rand.Rand, services []edit, servers [][]edit) {
	var ready []edit // servers whose service is there
	left := r.Perm(len(services))
	for len(left)+len(ready) > 0 {
		if len(left) > 0 && (len(ready) == 0 || r.IntN(8) == 0) {
			l.Set("POST", services[left[0]].words, services[left[0]].body)
			ready = append(ready, servers[left[0]]...)
			left = left[1:]
			continue
		}
		i := r.IntN(len(ready))
		e := ready[i]
		ready = slices.Delete(ready, i, i+1)
		switch r.IntN(4) {
		case 0:
			l.Set("POST", e.words, `{"weight":9}`)
			l.Set("DELETE", e.words, "")
			ready = append(ready, e)
		case 1:
			l.Set("POST", e.words, `{"weight":7}`)
			l.Set("PATCH", e.words, e.body)
		default:
			l.Set("POST", e.words, e.body)
		}
	}
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
	var labs []*bpftest.Lab
	for range 2 {
		l := bpftest.New(t, bpftest.Options{Hosts: 2})
		l.Create("lbrp", "lb", `{`+twoPorts+`}`)
		configure(l, r, services, servers)
		labs = append(labs, l)
	}
	var frames [][]byte
	for range tuples {
		frames = append(frames, tuple(r))
	}
	// The second machine gets them in another order as well.
	order := r.Perm(tuples)
	shuffled := make([][]byte, tuples)
	for i, n := range order {
		shuffled[i] = frames[n]
	}
	first, second := labs[0].RunAll("veth1", frames), labs[1].RunAll("veth1", shuffled)
	seen := map[string]bool{}
	for i, n := range order {
		a, b := first[n], second[i]
		if a == nil || !bytes.Equal(a, b) {
			t.Fatalf("% x left as\n% x, and on the other machine as\n% x", frames[n], a, b)
		}
		seen[fmt.Sprintf("%x of %x", destination(a), destination(frames[n]))] = true
	}
	want := 0
	for _, all := range servers {
		want += len(all)
	}
	if len(seen) < want/2 {
		t.Errorf("%d tuples went to %d pairs of service and server, of %d", tuples, len(seen), want)
	}
}
