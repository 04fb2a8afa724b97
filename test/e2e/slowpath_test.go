// SPDX-License-Identifier: Apache-2.0

// Packets through user space come back unmodified, including large ones that a network card would segment.

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestSlowPathPutsPacketsBack(t *testing.T) {
	onEachHook(t, func(t *testing.T, kind string, d *daemon, hosts [3]*netns.Node) {
		d.Do("transparenthelloworld add th1 type=" + kind)
		d.Do("attach th1 br1:p1")
		reaches(t, hosts[0], "10.0.0.3")
		for _, direction := range []string{"ingress", "egress"} {
			d.Do("th1 set " + direction + "-action=SLOWPATH")
			before := d.Stats("th1").Fate(t, "slowpath")
			reaches(t, hosts[0], "10.0.0.3", netns.PingOptions{Count: 20, Timeout: 2 * time.Second})
			if after := d.Stats("th1").Fate(t, "slowpath"); after < before+20 {
				t.Errorf("%s: %d packets went up, before %d, and 20 were sent", direction, after, before)
			}
			in, out := netns.OpenRaw(t, hosts[0], netns.Inner), netns.OpenRaw(t, hosts[2], netns.Inner)
			if direction == "egress" {
				in, out = out, in
			}
			frames := oddFrames(1500)
			delete(frames, "the largest with a tag") // a VLAN tag exceeds the MTU on the way back
			for name, rest := range frames {
				frame := append(append([]byte{255, 255, 255, 255, 255, 255}, 2, 0, 0, 0, 0, 9), rest...)
				if err := in.Send(frame); err != nil {
					t.Fatal(err)
				}
				sameFrame(t, out, direction+", "+name, frame)
			}
			d.Do("th1 set " + direction + "-action=PASS")
		}
	})
}

// TestTimedLargeSegmentsSurviveTheSlowPath: TCP passes segments of 64 KB to the device, and they stay whole in both
// directions.
func TestTimedLargeSegmentsSurviveTheSlowPath(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	d.Do("transparenthelloworld add th1")
	d.Do("attach th1 br1:p1")
	reaches(t, hosts[0], "10.0.0.3")
	d.Do("th1 set ingress-action=SLOWPATH")
	before := d.Stats("br1")
	took := transfer(t, hosts[0], hosts[2], 64<<20)
	after := d.Stats("br1")
	var packets, bytes uint64
	for i, p := range after.Ports {
		if p.Name == "p1" {
			packets, bytes = p.RxPackets-before.Ports[i].RxPackets, p.RxBytes-before.Ports[i].RxBytes
		}
	}
	rate := float64(64<<20) / took.Seconds() / (1 << 20)
	t.Logf("64 MB through user space in %v, %.0f MB/s, %d bytes a packet", took, rate, bytes/max(packets, 1))
	if packets == 0 || bytes/packets < 8000 {
		t.Errorf("%d packets of %d bytes entered: no large segments were tried", packets, bytes)
	}
	if rate < 20 {
		t.Errorf("%.0f MB/s through user space: segments are lost and sent again", rate)
	}
}

// TestSlowPathOfStandardCubesIsLogged: packets that a cube sends to user space and that end there are logged.
func TestSlowPathOfStandardCubesIsLogged(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			for i, c := range []struct{ service, command string }{
				{"helloworld", "set action=SLOWPATH"},
				{"simpleforwarder", "actions add p1 action=SLOWPATH"},
			} {
				veth := fmt.Sprintf("veth%d", i+1)
				host := d.lab.Host(veth, "")
				d.Do(fmt.Sprintf("%s add cube%d type=%s", c.service, i, kind))
				d.Do(fmt.Sprintf("cube%d ports add p1 peer=%s", i, veth))
				d.Do(fmt.Sprintf("cube%d %s", i, c.command))
				in := netns.OpenRaw(t, host, netns.Inner)
				frame := pkt.EthernetFrame([]byte{255, 255, 255, 255, 255, 255}, host.MAC, streamType, make([]byte, 50))
				netns.Eventually(t, patience, func() error {
					if err := in.Send(frame); err != nil {
						return err
					}
					line := fmt.Sprintf("[%s] [cube%d] [info] packet port=p1 length=64 from=%s to=ff:ff:ff:ff:ff:ff", c.service, i, host.MAC)
					if log := d.out.String(); !strings.Contains(log, line) {
						return fmt.Errorf("%q is not in the log:\n%s", line, tail(log, 5))
					}
					return nil
				})
				if n := d.Stats(fmt.Sprintf("cube%d", i)).Fate(t, "slowpath"); n == 0 {
					t.Errorf("%s: no packet is counted as slowpath", c.service)
				}
			}
		})
	}
}
