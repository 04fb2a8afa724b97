// SPDX-License-Identifier: Apache-2.0

package efw_test

// How long verdicts of old rules stay in effect, and how soon those of new ones are, with a thousand rules.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/efw"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const (
	maxWithdrawal = 5 * time.Millisecond
	maxCompile    = 100 * time.Millisecond
	// On a machine whose iptables-save or nft takes long, new rules are in effect within so many times its time.
	maxPrints = 5
)

// manyRules are a thousand rules for packets that are forwarded, of which the last one decides on packets to port 82.
func manyRules(program, verdict string) string {
	var out strings.Builder
	begin, one, last, end := "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n", "-A FORWARD -s 10.%d.%d.1/32 -p tcp -m tcp --dport %d -j DROP\n", "-A FORWARD -p udp -m udp --dport 82 -j %s\n", "COMMIT\n"
	if program == "nft" {
		begin, one, last, end = "flush ruleset\ntable inet x {\nchain f {\ntype filter hook forward priority 0\n", "ip saddr 10.%d.%d.1 tcp dport %d counter drop\n", "udp dport 82 counter %s\n", "}\n}\n"
		verdict = strings.ToLower(verdict)
	}
	out.WriteString(begin)
	for n := range 999 {
		fmt.Fprintf(&out, one, 16+n/250, n%250, 1000+n)
	}
	fmt.Fprintf(&out, last, verdict)
	return out.String() + end
}

// put replaces the rules of a program, which may be nft.
func (r *router) put(program, rules string) {
	r.t.Helper()
	if program == "nft" {
		r.nft(rules)
	} else {
		r.restore(program, rules)
	}
}

// notices tells when the host announces a change: by netlink or, for tables of iptables-legacy, by a program on the function that swaps
// them. It is nil if the kernel does not allow that.
func (r *router) notices(program string) <-chan time.Time {
	r.t.Helper()
	out := make(chan time.Time, 1)
	tell := func() {
		select {
		case out <- time.Now():
		default: // a change has several messages
		}
	}
	if program == "iptables-legacy" {
		stop, err := efw.FollowSwaps(tell)
		if err != nil {
			r.t.Logf("nothing tells when tables of iptables-legacy are swapped, so that verdicts are not withdrawn in time: %v", err)
			return nil
		}
		r.t.Cleanup(func() { r.Must(stop) })
		return out
	}
	var s *nl.NetlinkSocket
	r.Must(func() (err error) {
		s, err = nl.Subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
		return err
	})
	ended := make(chan struct{})
	r.t.Cleanup(func() { s.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			if _, _, err := s.Receive(); err != nil && !errors.Is(err, unix.ENOBUFS) {
				return
			}
			tell()
		}
	}()
	return out
}

// closing waits until packets find the gate closed, and returns when.
func (r *router) closing(gate *ebpf.Map) time.Time {
	for end := time.Now().Add(bpftest.Patience); time.Now().Before(end); {
		entry, err := gate.LookupBytes(uint32(0))
		if err != nil {
			r.t.Error(err)
			break
		}
		if binary.NativeEndian.Uint64(entry) == 0 {
			return time.Now()
		}
	}
	r.t.Errorf("the gate is not closed after %v", bpftest.Patience)
	return time.Now()
}

// prints is how long the program takes that prints the rules.
func (r *router) prints(program string) time.Duration {
	r.t.Helper()
	words := []string{program + "-save", "-c"}
	if program == "nft" {
		words = []string{"nft", "-j", "list", "ruleset"}
	}
	begun := time.Now()
	if out, err := r.Command(words[0], words[1:]...).Output(); err != nil || len(out) < 10000 {
		r.t.Fatalf("%v: %v: it prints %d bytes", words, err, len(out))
	}
	return time.Since(begun)
}

func median(of []time.Duration) time.Duration { return slices.Sorted(slices.Values(of))[len(of)/2] }

// TestTimedAThousandRulesChange: from the notice to the closed gate, and from there to new rules in effect. The medians count, as any
// single change may meet something else that the machine does.
func TestTimedAThousandRulesChange(t *testing.T) {
	needIptables(t)
	for _, program := range []string{"iptables-nft", "nft", "iptables-legacy"} {
		t.Run(program, func(t *testing.T) {
			r := newRouter(t, cube.TypeTC, `{}`)
			r.changed("dport 82", func() { r.put(program, manyRules(program, "DROP")) })
			gate, notices := r.Map("f", "gate"), r.notices(program)
			from, to := r.mac()
			frame := pkt.Eth(from, to).IPv4(client, server).UDP(1, 82).Bytes()
			const rounds = 5
			var withdrawn, compiled, printed []time.Duration
			for n := range rounds {
				verdict, want := "ACCEPT", leaves
				if n%2 == 1 {
					verdict, want = "DROP", byRule
				}
				rules := manyRules(program, verdict)
				took := make(chan time.Duration, 1)
				if notices != nil {
					go func() {
						noticed := <-notices
						took <- r.closing(gate).Sub(noticed)
					}()
				}
				r.put(program, rules)
				if notices != nil {
					withdrawn = append(withdrawn, <-took)
				}
				r.settled()
				// A change has several messages, each of which begins a compilation: the cube's time is that of the last one.
				compiled = append(compiled, time.Duration(r.status().LastCompile)*time.Microsecond)
				printed = append(printed, r.prints(program))
				if got, _ := r.judged(frame); got != want {
					t.Errorf("after %s: got %+v, want %+v", verdict, got, want)
				}
				for len(notices) > 0 {
					<-notices
				}
			}
			t.Logf("withdrawn after %v, compiled within %v; printing takes %v", withdrawn, compiled, printed)
			if notices != nil && median(withdrawn) > maxWithdrawal {
				t.Errorf("verdicts are withdrawn %v after the notice, more than %v", median(withdrawn), maxWithdrawal)
			}
			if got, limit := median(compiled), max(maxCompile, maxPrints*median(printed)); got > limit {
				t.Errorf("rules are compiled within %v, more than %v", got, limit)
			}
		})
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		if n := efw.Asked(); n > 0 {
			return fmt.Errorf("%d pollers are left", n)
		}
		return nil
	})
}
