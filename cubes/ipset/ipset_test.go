// SPDX-License-Identifier: Apache-2.0

package ipset_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // with rules that match sets
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// forwarder has rules that forward packets between its ports, as far as they match.
func forwarder(l *bpftest.Lab, name string, ports []int, rules ...string) {
	body := `{"ports":[`
	for i, p := range ports {
		body += fmt.Sprintf(`{"name":"p%d","peer":"veth%d"},`, i+1, p)
	}
	l.Create("pbforwarder", name, strings.TrimSuffix(body, ",")+`],"rules":[`+strings.Join(rules, ",")+`]}`)
}

func frame(from, to string) []byte { return frameTo(from, to, 2) }

func frameTo(from, to string, port uint16) []byte {
	e := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02")
	if strings.Contains(from, ":") {
		return e.IPv6(from, to).UDP(1, port).Payload(30).Bytes()
	}
	return e.IPv4(from, to).UDP(1, port).Payload(30).Bytes()
}

// fate of a packet in a forwarder: sent out, dropped by a rule, or by none.
func fate(l *bpftest.Lab, dev, from, to string) string {
	o := l.Run(dev, frame(from, to))
	if o.Sent != "" {
		return o.Sent
	}
	_, fate, _ := strings.Cut(o.Fate, " ")
	return fate
}

func TestRulesMatchAddressesOfASet(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("ipset", "bad", `{"prefixes":[{"prefix":"10.0.0.0/8"},{"prefix":"2001:db8::/33"},{"prefix":"192.0.2.1"}]}`)
		forwarder(l, "f", []int{1, 2}, `{"id":1,"src_set":"bad"}`, `{"id":2,"dst_set":"bad","action":"FORWARD","out_port":"p1"}`,
			`{"id":3,"not":{"src_set":"later"},"action":"FORWARD","out_port":"p2"}`)
		check := func(when string, want map[string]string) {
			t.Helper()
			for addresses, want := range want {
				from, to, _ := strings.Cut(addresses, " ")
				if got := fate(l, "veth1", from, to); got != want {
					t.Errorf("%s: %s: the fate is %s, want %s", when, addresses, got, want)
				}
			}
		}
		check("two sets, one of which does not exist", map[string]string{
			"10.255.0.1 11.0.0.1": "action-drop", "11.0.0.1 10.0.0.1": "f:p1", "11.0.0.1 9.255.255.255": "f:p2",
			"192.0.2.1 1.1.1.1": "action-drop", "192.0.2.2 192.0.2.1": "f:p1", "192.0.2.2 192.0.2.0": "f:p2",
			"2001:db8:7fff::1 ::1": "action-drop", "2001:db8:8000::1 2001:db8::": "f:p1", "2001:db8:8000::1 2001:db8:8000::": "f:p2",
		})
		if got := l.Run("veth1", pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").ARPRequest("02:00:00:00:00:01", "10.0.0.1", "10.0.0.2").Bytes()).Fate; got != "f no-rule" {
			t.Errorf("ARP, which has no address, has the fate %s, want f no-rule", got)
		}
		l.Set("POST", "bad prefixes 192.0.2.2", "")
		l.Set("DELETE", "bad prefixes 10.0.0.0/8", "")
		check("one prefix more, one less", map[string]string{
			"192.0.2.2 1.1.1.1": "action-drop", "10.0.0.1 10.0.0.2": "f:p2", "192.0.2.1 1.1.1.1": "action-drop",
		})
		l.Create("ipset", "later", `{"prefixes":[{"prefix":"11.0.0.0/8"}]}`)
		check("a set that a rule has named before", map[string]string{"11.0.0.1 1.1.1.1": "no-rule", "12.0.0.1 1.1.1.1": "f:p2"})
		l.Set("PUT", "bad prefixes", `[{"prefix":"12.0.0.0/8"}]`)
		check("other prefixes", map[string]string{"12.0.0.1 1.1.1.1": "action-drop", "192.0.2.2 1.1.1.1": "f:p2"})
		l.Set("DELETE", "bad", "")
		check("a set that was deleted", map[string]string{"12.0.0.1 1.1.1.1": "f:p2"})
	})
}
