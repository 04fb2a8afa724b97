// SPDX-License-Identifier: Apache-2.0

// The properties that a transparent cube inherits follow its parent, whether changed by a request or by ip(8).

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestTransparentCubesFollowTheirParent(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.lab.Host("veth1", "")
	d.lab.Host("veth2", "")
	ip := func(words string) { d.lab.Run("ip", strings.Fields(words)...) }
	ip("link set veth1 address 02:00:00:00:01:01 mtu 1480")
	ip("link set veth2 address 02:00:00:00:02:02 mtu 1500")
	d.Do("simplebridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	d.Do("transparenthelloworld add th1 loglevel=DEBUG")
	for _, c := range []struct {
		step string
		do   func()
		want string
	}{
		{"attached to a port", func() { d.Do("attach th1 br1:p1") },
			"name=br1:p1 peer=veth1 netdev=veth1 mac=02:00:00:00:01:01 mtu=1480 addresses="},
		{"the netdev's MTU", func() { ip("link set veth1 mtu 1400") }, "name=br1:p1 peer=veth1 netdev=veth1 mac=02:00:00:00:01:01 mtu=1400"},
		{"its MAC address", func() { ip("link set veth1 address 02:00:00:00:01:77") }, "netdev=veth1 mac=02:00:00:00:01:77 mtu=1400"},
		{"its addresses", func() { ip("addr add 10.9.0.1/24 dev veth1") }, "10.9.0.1/24"},
		{"no peer", func() { d.Do("disconnect br1:p1 veth1") }, `name=br1:p1 peer="" netdev="" mac="" mtu=0 addresses=[]`},
		{"another peer", func() { d.Do("connect br1:p1 veth2") }, "name=br1:p1 peer=veth2 netdev=veth2 mac=02:00:00:00:02:02 mtu=1500"},
		{"detached", func() { d.Do("detach th1 br1:p1") }, `name="" peer="" netdev=""`},
		{"on a netdev", func() { d.Do("attach th1 veth1") }, `name=veth1 peer="" netdev=veth1 mac=02:00:00:00:01:77 mtu=1400`},
		{"that is renamed", func() {
			ip("link set veth1 down")
			ip("link set veth1 name other0")
		}, `name=veth1 peer="" netdev=veth1 mac="" mtu=0`},
		{"and is back", func() {
			ip("link set other0 name veth1")
			ip("link set veth1 up")
		}, `name=veth1 peer="" netdev=veth1 mac=02:00:00:00:01:77 mtu=1400`},
	} {
		before := len(d.out.String())
		c.do()
		netns.Eventually(t, patience, func() error {
			for line := range strings.Lines(d.out.String()[before:]) {
				if strings.Contains(line, "parent") && strings.Contains(line, "th1") && strings.Contains(line, c.want) {
					return nil
				}
			}
			return fmt.Errorf("%s: no line of th1 says %s:\n%s", c.step, c.want, d.out.String()[before:])
		})
	}
}

// A port's own leaves take precedence over its netdev's properties.
func TestTransparentCubesInheritLeavesOfAPort(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.own = true
	d := m.Start()
	d.lab.Host("veth1", "")
	d.lab.Run("ip", "link", "set", "veth1", "address", "02:00:00:00:01:01", "mtu", "1480")
	d.Do("responder add r1")
	d.Do("r1 ports add p1 peer=veth1 ip=10.7.0.1/24 mac=02:00:00:00:07:07")
	d.Do("transparenthelloworld add th1 loglevel=DEBUG")
	for _, c := range []struct{ line, want string }{
		{"attach th1 r1:p1", "mac=02:00:00:00:07:07 mtu=1480 addresses=[10.7.0.1/24]"},
		{"r1 ports p1 set ip=10.8.0.1/16", "mac=02:00:00:00:07:07 mtu=1480 addresses=[10.8.0.1/16]"},
		{"r1 ports p1 set mac=02:00:00:00:07:08", "mac=02:00:00:00:07:08 mtu=1480 addresses=[10.8.0.1/16]"},
	} {
		before := len(d.out.String())
		d.Do(c.line)
		// The answer is sent when the cube has been notified; its output comes through a pipe.
		netns.Eventually(t, patience, func() error {
			if said := d.out.String()[before:]; !strings.Contains(said, c.want) {
				return fmt.Errorf("%s: the daemon says\n%s, want %s", c.line, said, c.want)
			}
			return nil
		})
	}
}
