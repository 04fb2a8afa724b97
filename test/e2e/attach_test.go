// SPDX-License-Identifier: Apache-2.0

// Chained transparent cubes: their order is the requested one, in the API and for packets.

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

func TestTransparentCubesStandInTheOrderAskedFor(t *testing.T) {
	t.Parallel()
	const row = "th1 ---> th2 ---> th3 ---> th4 ---> th5"
	const back = "th5 ---> th4 ---> th3 ---> th2 ---> th1"
	for _, kind := range types {
		for _, c := range []struct {
			name, port, ingress, egress string
			requests                    []string
		}{
			{"on a netdev", "veth1", row + " ---> stack", back + " ---> stack",
				[]string{"th3", "th1 position=first", "th5 position=last", "th2 after=th1", "th4 before=th5"}},
			{"on a port, where the first is next to the cube", "br1:p1", back + " ---> br1:p1", "br1:p1 ---> " + row,
				[]string{"th3", "th1 position=first", "th5 position=last", "th2 after=th1", "th4 before=th5"}},
		} {
			t.Run(kind+", "+c.name, func(t *testing.T) {
				t.Parallel()
				d := start(t)
				host := d.lab.Host("veth1", "10.0.0.1/24")
				var towards *netns.Raw // frames sent there reach the host
				if strings.Contains(c.port, ":") {
					towards = netns.OpenRaw(t, d.lab.Host("veth2", "10.0.0.2/24"), netns.Inner)
					d.Do("simplebridge add br1 type=" + kind)
					d.Do("br1 ports add p1 peer=veth1")
					d.Do("br1 ports add p2 peer=veth2")
				} else {
					d.lab.Run("ip", "addr", "add", "10.0.0.2/24", "dev", "veth1")
					towards = netns.OpenRaw(t, d.lab, "veth1")
				}
				for i := range 5 {
					d.Do(fmt.Sprintf("transparenthelloworld add th%d type=%s", i+1, kind))
				}
				for _, r := range c.requests {
					cube, place, _ := strings.Cut(r, " ")
					d.Do(fmt.Sprintf("attach %s %s %s", cube, c.port, place))
				}
				want := fmt.Sprintf("name: veth1\ningress service chain: %s\negress service chain: %s\n", c.ingress, c.egress)
				if got := d.Do("topology show veth1"); !strings.HasPrefix(got, want) {
					t.Errorf("topology show veth1:\n%s\nwant\n%s", got, want)
				}
				want = strings.Replace(want, "name: veth1", "name: "+c.port, 1)
				if got := d.Do("topology show " + c.port); !strings.HasPrefix(got, want) {
					t.Errorf("topology show %s:\n%s\nwant\n%s", c.port, got, want)
				}
				reaches(t, host, "10.0.0.2", netns.PingOptions{Count: 3})
				d.meetInOrder("ingress", c.ingress, netns.OpenRaw(t, host, netns.Inner))
				d.meetInOrder("egress", c.egress, towards)
				reaches(t, host, "10.0.0.2", netns.PingOptions{Count: 3})
			})
		}
	}
}

// meetInOrder makes all cubes of a chain drop: only the first counts a frame, then the second when the first passes it,
// and so on.
func (m *machine) meetInOrder(direction, chain string, from *netns.Raw) {
	m.t.Helper()
	var cubes []string
	for _, c := range strings.Split(chain, " ---> ") {
		if strings.HasPrefix(c, "th") {
			cubes = append(cubes, c)
			m.Do(c + " set " + direction + "-action=DROP")
		}
	}
	drops := func() []uint64 {
		var out []uint64
		for _, c := range cubes {
			out = append(out, m.Stats(c).Fate(m.t, direction+"-drop"))
		}
		return out
	}
	frame := slices.Concat([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1}, unhex("88b5"), noise(46))
	for i, c := range cubes {
		want := drops()
		want[i]++
		// A drop on egress is reported to the sender.
		if err := from.Send(frame); err != nil && !errors.Is(err, unix.ENOBUFS) {
			m.t.Fatal(err)
		}
		netns.Eventually(m.t, patience, func() error {
			got := drops()
			// The hosts' own frames (ARP) may be dropped too, by the same cube.
			want[i] = max(want[i], got[i])
			if !slices.Equal(got, want) {
				return fmt.Errorf("%s %s: with %s the first that drops, the cubes dropped %v, want %v", direction, chain, c, got, want)
			}
			return nil
		})
		m.Do(c + " set " + direction + "-action=PASS")
	}
}

func TestTransparentCubesLeave(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	for i := range 3 {
		d.Do(fmt.Sprintf("transparenthelloworld add th%d", i+1))
	}
	d.Do("attach th1 br1:p1")
	d.Do("attach th2 br1:p1 position=last")
	d.Do("attach th3 br1:p2")
	d.Do("del th1")
	if got := d.Do("topology show veth1"); !strings.Contains(got, "ingress service chain: th2 ---> br1:p1\n") {
		t.Errorf("after th1 was deleted: %s", got)
	}
	d.Do("br1 ports del p1")
	if got := d.Do("th2 show parent"); strings.TrimSpace(got) != "" {
		t.Errorf("parent of th2, whose port was deleted: %q", got)
	}
	if got := strings.TrimSpace(d.Do("th3 show parent")); got != "br1:p2" {
		t.Errorf("parent of th3: %q", got)
	}
	reaches(t, hosts[1], "10.0.0.3")
	for _, line := range []string{"detach th2 br1:p2", "detach th3 br1:p1", "detach th3 veth1"} {
		if r := d.CLI(strings.Fields(line)...); r.code != 2 {
			t.Errorf("detach what is not attached there: %s", r)
		}
	}
}
