// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// mostVerified is more than the verifier processes for ten forwarders in one program, and less than for two programs that
// have a search each.
const mostVerified = 36_000

func TestForwardersInARowShareTheSearch(t *testing.T) {
	const row = 10
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		for i := range row {
			l.Create("pbforwarder", fmt.Sprintf("f%d", i), fmt.Sprintf(
				`{"ports":[{"name":"a"},{"name":"b"}],"rules":[{"id":1,"in_port":"a","dst_port":%d},{"id":2,"action":"FORWARD","in_port":"a","out_port":"b"}]}`, 1000+i))
			if i > 0 {
				l.Connect(fmt.Sprintf("f%d:b", i-1), fmt.Sprintf("f%d:a", i))
			}
		}
		l.Set("PATCH", "f0 ports a", `{"peer":"veth1"}`)
		l.Set("PATCH", fmt.Sprintf("f%d ports b", row-1), `{"peer":"veth2"}`)
		if got := l.Verified("f0"); got == 0 || got > mostVerified {
			t.Errorf("the verifier processed %d instructions for %d forwarders, want at most %d", got, row, mostVerified)
		}
		if got := l.Run("veth1", udp4).Sent; got == "" {
			t.Errorf("a packet that all let through is not sent")
		}
		begin := time.Now()
		l.Set("POST", "f5 rules 0", `{"src_mac":"02:00:00:00:00:99"}`) // no rule has matched MAC addresses before
		t.Logf("a rule on another field: %v", time.Since(begin))
		l.Set("PATCH", "f5 rules 0", `{"src_mac":"`+sourceOf(udp4)+`"}`)
		if got := l.Run("veth1", udp4); got.Fate != "f5 action-drop" {
			t.Errorf("a packet that rule 0 of f5 drops ends as %+v", got)
		}
	})
}

func sourceOf(frame []byte) string {
	m := frame[6:12]
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// parts is how many parts a shared map of memory has.
func parts(t *testing.T, l *bpftest.Lab, name, mapName string) (n int) {
	t.Helper()
	m := l.Map(name, mapName)
	for index := range uint32(4) { // each question takes long on old kernels
		var id uint32
		if err := m.Lookup(index, &id); err == nil {
			n++
		} else if !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Fatal(err)
		}
	}
	return n
}

func TestMemoryForRulesIsUsedAgain(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("pbforwarder", "f", withRules(`{"id":10,"dst_port":53,"action":"FORWARD","out_port":"p2"}`))
	for i := range 3 {
		l.Restart(func() {})
		if got := l.Run("veth1", udp4); got.Sent != "f:p2" {
			t.Errorf("after restart %d, a packet ends as %+v", i, got)
		}
		netns.Eventually(t, pace.Stretch(time.Minute), func() error { // the old one goes once programs have been linked in the background
			if n := parts(t, l, "f", "classify_memory"); n != 1 {
				return fmt.Errorf("after restart %d there are %d parts, want 1", i, n)
			}
			return nil
		})
	}
	for i := range 20 {
		l.Create("pbforwarder", "g", `{"rules":[{"id":1,"dst_port":53}]}`)
		l.Set("DELETE", "g", "")
		if n := parts(t, l, "f", "classify_memory"); n != 1 {
			t.Fatalf("after %d deleted cubes there are %d parts, want 1", i+1, n)
		}
	}
}
