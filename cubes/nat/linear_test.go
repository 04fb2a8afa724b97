// SPDX-License-Identifier: Apache-2.0

package nat

// Frames of which the kernel stores everything except the Ethernet header in fragments of the buffer, as with
// header-data split: data after the first bytes must be pulled before it can be read.

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

func TestHeadersThatAreNotInTheLinearPart(t *testing.T) {
	t.Parallel()
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Hosts: 2, Type: typ, Host: []netns.Option{netns.WithMTU(bpftest.LongestMTU(t, typ))}})
			b := newBench(t, l, snat)
			wires := l.Wires()
			data := bytesOf(min(bpftest.LongestMTU(t, typ), 5000) - 300)
			long := func(from string) raw {
				headers := append([]byte{nextUDP, 15}, make([]byte, 126)...)
				return outFrame(ip6(from, other6, 60, append(headers, udp(from, other6, 4000, 53, data)...)))
			}
			for _, s := range []step{
				{"no options", false, outFrame(ip4(host, other, nextUDP, 9, 0, nil, udp(host, other, 4000, 53, data))),
					outFrame(ip4(ours, other, nextUDP, 9, 0, nil, udp(ours, other, 4000, 53, data))), ""},
				{"all options", false, outFrame(ip4(host, other, nextTCP, 9, 0, make([]byte, 40), tcp4(host, other, 4000, 53, 2, data))),
					outFrame(ip4(ours, other, nextTCP, 9, 0, make([]byte, 40), tcp4(ours, other, 4000, 53, 2, data))), ""},
				{"an extension header of 128 bytes", false, long(host6), long(ours6), ""},
			} {
				if err := bpftest.SendSplit(l.Hosts[0], s.send.Bytes(), 14); err != nil {
					t.Fatal(err)
				}
				wires[1].Gets(s.want.Bytes())
				if fates := b.Fates("n"); len(fates) > 0 {
					t.Errorf("%s: %v", s.name, fates)
				}
			}
		})
	}
}
