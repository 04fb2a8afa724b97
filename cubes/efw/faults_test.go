// SPDX-License-Identifier: Apache-2.0

package efw_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// about82 is a rule set with a verdict on packets to port 82.
func about82(verdict string) string {
	return "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p udp -m udp --dport 81 -j DROP\n-A FORWARD -p udp -m udp --dport 82 -j " + verdict + "\nCOMMIT\n"
}

// changing replaces the rules of a firewall a hundred times a second, each time those about port 82 by others, until stop. That
// returns how often it did so; the last rules drop packets to this port.
func (r *router) changing(program string) (stop func() int) {
	r.t.Helper()
	cmd := r.Command(program + "-restore") // it carries out what it reads at each COMMIT
	var said strings.Builder
	cmd.Stderr = &said
	rules, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	done, changes := make(chan struct{}), make(chan int)
	put := func(verdict string) {
		if _, err := io.WriteString(rules, "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p udp -m udp --dport 81 -j DROP\n"+
			"-A FORWARD -p udp -m udp --dport 82 -j "+verdict+"\nCOMMIT\n"); err != nil {
			r.t.Errorf("%s-restore: %v: %s", program, err, said.String())
		}
	}
	go func() {
		often := time.NewTicker(10 * time.Millisecond)
		defer often.Stop()
		for n := 0; ; n++ {
			select {
			case <-done:
				put("DROP")
				changes <- n + 1
				return
			case <-often.C:
				put([]string{"ACCEPT", "DROP"}[n%2])
			}
		}
	}()
	return func() int {
		close(done)
		n := <-changes
		if err := rules.Close(); err != nil {
			r.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			r.t.Fatalf("%s-restore: %v: %s", program, err, said.String())
		}
		return n
	}
}

// byPort counts frames by the destination port of UDP.
func byPort(frames [][]byte) map[uint16]int {
	n := map[uint16]int{}
	for _, f := range frames {
		if len(f) > 38 && f[12] == 8 && f[13] == 0 && f[23] == 17 {
			n[binary.BigEndian.Uint16(f[36:])]++
		}
	}
	return n
}

// TestTrafficWhileRulesChangeAHundredTimesASecond: rules that stay are true for each packet, whoever judges it.
func TestTrafficWhileRulesChangeAHundredTimesASecond(t *testing.T) {
	needIptables(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB} {
		for _, program := range []string{"iptables-nft", "iptables-legacy"} {
			t.Run(fmt.Sprintf("%s/%s", typ, program), func(t *testing.T) {
				r := newRouter(t, typ, toServers)
				r.pin()
				from, to := r.mac()
				var frames [][]byte
				const each = 10
				for range each {
					for _, port := range []uint16{81, 82, 83} {
						frames = append(frames, pkt.Eth(from, to).IPv4(client, server).UDP(1, port).Payload(9).Bytes())
					}
				}
				r.changed("--dport 81", func() { r.restore(program, about82("DROP")) })
				stop, was := r.changing(program), r.status()
				rounds := 0
				for begun := time.Now(); time.Since(begun) < 2*time.Second || rounds < 10; rounds++ {
					if got := byPort(r.through(frames)); got[81] != 0 || got[83] != each || got[82] > each {
						t.Errorf("round %d: %d packets to port 81 left the router, %d to 82, %d to 83; want 0, any and %d", rounds, got[81], got[82], got[83], each)
						break
					}
				}
				n := stop()
				r.settled()
				s := r.status()
				t.Logf("%d changes, of which %d were noticed, during %d packets", n, s.Changes-was.Changes, rounds*len(frames))
				if n < 100 || s.Error != "" || program == "iptables-nft" && s.Changes-was.Changes < 100 {
					t.Errorf("%d changes, of which %d were noticed, in %d rounds: %s", n, s.Changes-was.Changes, rounds, s.Error)
				}
				netns.Eventually(t, bpftest.Patience, func() error { // a change of iptables-legacy may be detected late on a busy machine
					if got, _ := r.judged(frames[1]); got != byRule { // to port 82
						return fmt.Errorf("after the last change: got %+v, want %+v", got, byRule)
					}
					return nil
				})
			})
		}
	}
}

// TestRulesOfLegacyAreReadOnceMore: rules that replace others, and are replaced by them, while they are read leave no trace in the
// comparison of tables.
func TestRulesOfLegacyAreReadOnceMore(t *testing.T) {
	needIptables(t)
	program, err := exec.LookPath("iptables-legacy-save")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	script := fmt.Sprintf("#!/bin/sh\necho >> %s\nexec %s \"$@\"\n", log, program)
	if err := os.WriteFile(filepath.Join(dir, "iptables-legacy-save"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	r := newRouter(t, cube.TypeTC, toServers)
	r.changed("--dport 81", func() { r.restore("iptables-legacy", about82("DROP")) })
	r.settled()
	was := r.status()
	reads := func() int {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	first := reads()
	netns.Eventually(t, bpftest.Patience, func() error {
		n, is := reads(), r.status()
		if is.Changes != was.Changes { // of the network that was just made
			first, was = n, is
		}
		if n == first || is.Generation == was.Generation {
			return fmt.Errorf("the rules were read %d times, and %d times before", n, first)
		}
		return nil
	})
}
