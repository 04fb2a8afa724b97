// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/polycube/polycube/cubes/bridge/stp"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// setSpeed sets the reported link speed of a TAP device in Mbit/s.
func setSpeed(lab *netns.Lab, dev string, speed int) {
	lab.Run("ethtool", "-s", dev, "speed", strconv.Itoa(speed), "duplex", "full", "autoneg", "off")
}

// costReader returns a function that waits until a port of br has a cost from a source in a VLAN.
func costReader(t *testing.T, l *bpftest.Lab) func(port string, vlan, cost int, source string) {
	return func(port string, vlan, cost int, source string) {
		t.Helper()
		netns.Eventually(t, patience, func() error {
			words := fmt.Sprintf("br ports %s stp %d ", port, vlan)
			is, err := l.TryRead(words + "path-cost")
			if err != nil {
				return err
			}
			if from := l.Read(words + "path-cost-source"); is != strconv.Itoa(cost) || from != strconv.Quote(source) {
				return fmt.Errorf("the cost of port %s in VLAN %d is %s, %s; want %d, %q", port, vlan, is, from, cost, source)
			}
			return nil
		})
	}
}

// The cost of a port follows the speed of its netdev in each VLAN in which none is configured.
func TestPathCostsFollowTheSpeed(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Follow: true, Hosts: 1})
	l.Lab.Run("ip", "tuntap", "add", "tap0", "mode", "tap")
	l.Lab.Run("ip", "link", "set", "tap0", "up")
	setSpeed(l.Lab, "tap0", 100)
	l.Create("bridge", "far", `{"ports":[{"name":"p1"}]}`)
	l.Create("bridge", "br", `{"stp-enabled":true,"ports":[
		{"name":"up","peer":"tap0","mode":"trunk","trunk":{"allowed":[{"vlanid":10},{"vlanid":20}]},"stp":[{"vlan":20,"path-cost":7}]},
		{"name":"none"}]}`)
	costs := costReader(t, l)
	costs("none", 1, 2, "default")
	for _, c := range []struct {
		speed, cost int
		source      string
	}{{100, 19, "speed"}, {1000, 5, "speed"}, {10, 100, "speed"}, {25000, 1, "speed"}, {10000, 2, "speed"}} {
		setSpeed(l.Lab, "tap0", c.speed)
		for _, vlan := range []int{1, 10} {
			costs("up", vlan, c.cost, c.source)
		}
		costs("up", 20, 7, "configured")
	}
	setSpeed(l.Lab, "tap0", 1000)
	l.Set("PATCH", "br ports up stp 10", `{"path-cost":30}`)
	costs("up", 10, 30, "configured")
	costs("up", 1, 5, "speed")
	l.Set("DELETE", "br ports up stp 10 path-cost", "")
	l.Set("DELETE", "br ports up stp 20", "")
	costs("up", 10, 5, "speed")
	costs("up", 20, 5, "speed")

	l.Set("PATCH", "br ports up peer", `"veth1"`)
	costs("up", 1, 2, "speed")
	l.Set("PATCH", "br ports up peer", `""`)
	costs("up", 1, 2, "default")
	l.Set("PATCH", "br ports up peer", `"tap0"`)
	costs("up", 1, 5, "speed")
	l.Lab.Run("ip", "link", "del", "tap0")
	costs("up", 1, 2, "default")
	l.Set("PATCH", "br ports up peer", `"far:p1"`)
	l.Set("PATCH", "far ports p1 peer", `"br:up"`)
	costs("up", 10, 2, "default")
	l.Lab.Run("ip", "tuntap", "add", "tap0", "mode", "tap")
	l.Lab.Run("ip", "link", "set", "tap0", "up")
	setSpeed(l.Lab, "tap0", 100)
	l.Set("PATCH", "br ports none peer", `"tap0"`)
	costs("none", 1, 19, "speed")
	l.Restart(nil)
	costs("none", 1, 19, "speed")
	costs("up", 1, 2, "default")
}

// The Linux bridge of this kernel has the same costs, with one exception: older ones use 4 for 1 Gbit/s, as 802.1D-1998 does.
func TestPathCostsAreThoseOfLinux(t *testing.T) {
	t.Parallel()
	lab := netns.NewLab(t)
	for _, line := range []string{"link add br0 type bridge", "tuntap add tap0 mode tap", "link add veth0 type veth peer name veth1"} {
		lab.Run("ip", strings.Fields(line)...)
	}
	ofLinux := func(dev string) uint32 {
		lab.Run("ip", "link", "set", dev, "nomaster")
		lab.Run("ip", "link", "set", dev, "master", "br0")
		var links []struct{ Cost uint32 }
		if err := json.Unmarshal([]byte(lab.Run("bridge", "-j", "-d", "link", "show", "dev", dev)), &links); err != nil || len(links) != 1 {
			t.Fatalf("cost of %s: %v, %v", dev, links, err)
		}
		return links[0].Cost
	}
	if got := ofLinux("veth0"); got != stp.PathCost(10000) {
		t.Errorf("a veth costs %d, want %d", stp.PathCost(10000), got)
	}
	for _, speed := range []int{0, 10, 11, 100, 1000, 10000} {
		setSpeed(lab, "tap0", speed)
		want := []uint32{ofLinux("tap0")}
		if speed == 1000 {
			want = append(want, 5)
		}
		if got := stp.PathCost(uint32(speed)); !slices.Contains(want, got) {
			t.Errorf("at %d Mbit/s the cost is %d, want %v", speed, got, want)
		}
	}
}
