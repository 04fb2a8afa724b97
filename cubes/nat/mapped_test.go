// SPDX-License-Identifier: Apache-2.0

package nat

// Sessions that packets from outside find by the mapping, so that they have one entry.

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/bpftest"
)

// TestSessionsOfMappingsAreSweptAndShown: both directions are read of the one entry, and one without its mapping goes.
func TestSessionsOfMappingsAreSweptAndShown(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", strings.Replace(someRules, "{", `{"timeout":{"udp":40},`, 1))
	tables := tablesOf(t, l)
	for _, family := range []struct {
		rule                               uint32
		internal, external, remote, nobody string
	}{
		{1, "10.0.0.1:5", "203.0.113.1:1024", "198.51.100.1:53", "0.0.0.0:0"},
		{2, "[fd00::1]:5", "[2001:db8::1]:1024", "[2001:db8:1::1]:53", "[::]:0"},
	} {
		p := planted{proto: unix.IPPROTO_UDP, rule: family.rule, internal: family.internal, external: family.external, remote: family.nobody, mapping: true}
		plant(t, tables, p)
		p.remote, p.mapping, p.mapped = family.remote, false, true
		p.state, p.age = both, 50*time.Second // the remote was heard
		plant(t, tables, p)
		p.remote = strings.Replace(family.remote, "53", "54", 1)
		p.inAge = 50 * time.Second
		plant(t, tables, p)
		p.remote = strings.Replace(family.remote, "53", "55", 1)
		p.internal, p.inAge = strings.Replace(family.internal, "5", "6", 1), 0 // has no mapping
		plant(t, tables, p)
		p.age = 0 // the same, but it may be on its way
		p.remote = strings.Replace(family.remote, "53", "56", 1)
		plant(t, tables, p)
	}
	l.Restart(nil) // the first sweep looks for mappings
	wantSessions(t, tablesOf(t, l), 6, 2)
	for _, words := range []string{"10.0.0.1 198.51.100.1 5 53 udp", "fd00::1 2001:db8:1::1 5 53 udp"} {
		var shown struct {
			PacketsIn string `json:"packets-in"`
			BytesIn   string `json:"bytes-in"`
			Age       uint32
		}
		text := l.Read("n natting-table " + words)
		if err := json.Unmarshal([]byte(strings.NewReplacer(`"packets-in":2`, `"packets-in":"2"`, `"bytes-in":200`, `"bytes-in":"200"`).Replace(text)), &shown); err != nil {
			t.Fatal(err)
		}
		if shown.PacketsIn != "2" || shown.BytesIn != "200" || shown.Age >= 40 {
			t.Errorf("%s is %s", words, text)
		}
	}
	// One goes without its mapping, all with it.
	l.Set("DELETE", "n natting-table 10.0.0.1 198.51.100.1 5 53 udp", "")
	if got, err := l.TryRead("n natting-table 10.0.0.1 198.51.100.1 5 53 udp"); err == nil {
		t.Errorf("what was deleted is %s", got)
	}
	l.Set("DELETE", "n natting-table", "")
	wantSessions(t, tablesOf(t, l), 0, 0)
}

// A session of a mapping and one of the host that has the external address are made at the same time: one of both gets the
// external endpoint towards their remote.
func TestMappingsAndTheHostShareNoEndpoint(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"0.0.0.0/0","external-ip":"203.0.113.1"}]}}}`)
		const ports = 300
		var frames [][]byte
		from := func(addr string, port int) {
			frames = append(frames, outFrame(plain4(addr, other, nextUDP, udp(addr, other, uint16(port), 53, nil))))
		}
		for i := range ports {
			for range 2 {
				from(host, 2000+i)
				from(ours, 2000+i)
			}
		}
		holder := map[uint16]string{}
		through := map[string]int{}
		l.Together("veth1", 4, frames, func(n int, got []byte) {
			if got == nil {
				return // the host was faster, and the mapping has just that port
			}
			who := []string{host, ours}[n%2]
			through[who]++
			p := binary.BigEndian.Uint16(got[34:])
			if had, ok := holder[p]; ok && had != who {
				t.Errorf("port %d is that of %s and %s", p, had, who)
			}
			holder[p] = who
		})
		if through[ours] != 2*ports {
			t.Errorf("%d of %d datagrams of the host went out", through[ours], 2*ports)
		}
		b.claimed()
	})
}
