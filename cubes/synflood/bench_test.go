// SPDX-License-Identifier: Apache-2.0

package synflood_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// BenchmarkPackets: packets that are not changed. A SYN that is answered is not the same packet any more.
func BenchmarkPackets(b *testing.B) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, protection := range []string{"OFF", "AUTO", "ON"} {
			m := protect(b, bpftest.New(b, bpftest.Options{Type: typ, Hosts: 1, Follow: true, ServicesIn: services}),
				fmt.Sprintf(`{"protection":%q,"threshold":1000000000,"forward-syn-rate":1000000000,"protected-ports":[{"port":7000}]}`, protection))
			forwarded, other := fromClient(false, syn, usual...), fromClient(false, ack)
			forwarded.to, other.dport = "192.0.2.1", 22
			for what, s := range map[string]segment{
				"another port": other, "an ACK without a connection": fromClient(false, ack), "a SYN to another host": forwarded,
			} {
				b.Run(strings.ToLower(string(typ))+"/"+protection+"/"+what, func(b *testing.B) { m.Time(b, "veth1", m.frame(s)) })
			}
		}
	}
}
