// SPDX-License-Identifier: Apache-2.0

package ipset_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// TestASetStaysWhileTheDaemonIsReplaced sends packets all the time. The rules are older than the set, so they are restored
// first.
func TestASetStaysWhileTheDaemonIsReplaced(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		forwarder(l, "f", []int{1, 2}, `{"id":1,"src_set":"s"}`, `{"id":2,"action":"FORWARD","out_port":"p2"}`)
		l.Create("ipset", "s", `{"prefixes":[{"prefix":"10.0.0.0/8"},{"prefix":"2001:db8::1"}]}`)
		wires := l.Wires()
		var sent uint64
		for range 3 {
			restarted, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				for {
					select {
					case <-restarted:
						return
					default:
					}
					if err := wires[0].Send(frame("10.0.0.1", "1.1.1.1")); err == nil {
						sent++
					}
				}
			}()
			l.Restart(nil)
			close(restarted)
			<-ended
			for from, want := range map[string]string{"10.0.0.1": "action-drop", "11.0.0.1": "f:p2", "2001:db8::1": "action-drop", "2001:db8::2": "f:p2"} {
				if got := fate(l, "veth1", from, from); got != want {
					t.Errorf("after a restart, packets of %s have the fate %s, want %s", from, got, want)
				}
			}
			l.Set("POST", "s prefixes 12.0.0.0/8", "")
			if got := fate(l, "veth1", "12.0.0.1", "1.1.1.1"); got != "action-drop" {
				t.Errorf("after a change, the fate is %s, want action-drop", got)
			}
			l.Set("DELETE", "s prefixes 12.0.0.0/8", "")
		}
		const rounds, dropped, forwarded = 3, 3, 2
		netns.Eventually(t, bpftest.Patience, func() error {
			var rules []struct{ Packets uint64 }
			if err := json.Unmarshal([]byte(l.Read("f rules")), &rules); err != nil {
				return err
			}
			if got, want := [2]uint64{rules[0].Packets, rules[1].Packets}, [2]uint64{sent + rounds*dropped, rounds * forwarded}; got != want {
				return fmt.Errorf("the rules have %d packets, want %d", got, want)
			}
			return nil
		})
	})
}
