// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// setSpeed makes a TAP device say that its link has a speed in Mbit/s.
func setSpeed(lab *netns.Lab, dev string, speed int) {
	lab.Run("ethtool", "-s", dev, "speed", strconv.Itoa(speed), "duplex", "full", "autoneg", "off")
}

// A veth reports 10 Gbit/s, a TAP device what it was set to, others nothing.
func TestSpeedsAreListed(t *testing.T) {
	lab := netns.NewLab(t)
	for _, line := range []string{"tuntap add tap0 mode tap", "link add veth0 type veth peer name veth1", "link add br0 type bridge"} {
		lab.Run("ip", strings.Fields(line)...)
	}
	setSpeed(lab, "tap0", 2500)
	for name, want := range map[string]uint32{"tap0": 2500, "veth0": 10000, "br0": 0, "lo": 0} {
		lab.Must(func() error {
			info, err := Get(name)
			if err == nil && info.Speed != want {
				t.Errorf("Get: the speed of %s is %d, want %d", name, info.Speed, want)
			}
			return err
		})
		lab.Must(func() error {
			infos, err := List()
			for _, info := range infos {
				if info.Name == name && info.Speed != want {
					t.Errorf("List: the speed of %s is %d, want %d", name, info.Speed, want)
				}
			}
			return err
		})
	}
}

// No link message reports a speed that somebody sets.
func TestWatchTellsOfSpeeds(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "tuntap", "add", "tap0", "mode", "tap")
	setSpeed(lab, "tap0", 100)
	events, initial := start(t, lab)
	for _, e := range initial {
		if e.Info.Name == "tap0" && e.Info.Speed != 100 {
			t.Errorf("the speed at first is %d, want 100", e.Info.Speed)
		}
	}
	for _, speed := range []int{1000, 10000, 10} {
		setSpeed(lab, "tap0", speed)
		await(t, events, "a speed that is set", func(e Event) bool {
			return changed(e, "tap0") && e.Info.Speed == uint32(speed) && e.Old.Speed != e.Info.Speed
		})
	}
	lab.Run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
	await(t, events, "a veth", func(e Event) bool { return e.Kind == Added && e.Info.Name == "veth0" && e.Info.Speed == 10000 })
	lab.Run("ip", "link", "set", "veth0", "up")
	await(t, events, "a change of the veth", func(e Event) bool { return changed(e, "veth0") && e.Info.Up && e.Info.Speed == 10000 })
}

// After lost messages all speeds are read again, and only differences are told.
func TestLostSpeedsAreAskedFor(t *testing.T) {
	w, told := table()
	w.known = map[int]Info{1: {Index: 1, Name: "a", Speed: 100}, 2: {Index: 2, Name: "b", Speed: 10}}
	w.speed = func(index int) uint32 { return map[int]uint32{1: 1000, 2: 10}[index] }
	w.askSpeeds()
	if got := strings.Join(*told, ", "); got != "changed a was a" || w.known[1].Speed != 1000 {
		t.Errorf("told %s; the speed is %d", got, w.known[1].Speed)
	}
}

func TestMessagesOfSpeeds(t *testing.T) {
	attr := func(kind, value string) string { return string([]byte{byte(4 + len(value)), 0}) + kind + value }
	device := attr("\x01\x80", attr("\x01\x00", "\x07\x00\x00\x00"))
	for _, tt := range []struct {
		name, message string
		speed         uint32
		ok            bool
	}{
		{"set", "\x05\x01\x00\x00" + device + attr("\x05\x00", "\xe8\x03\x00\x00"), 1000, true},
		{"unknown", "\x05\x01\x00\x00" + device + attr("\x05\x00", "\xff\xff\xff\xff"), 0, true},
		{"not said", "\x05\x01\x00\x00" + device, 0, true},
		{"of no device", "\x05\x01\x00\x00" + attr("\x05\x00", "\xe8\x03\x00\x00"), 1000, false},
		{"of something else", string([]byte{unix.ETHTOOL_MSG_LINKINFO_NTF, 1, 0, 0}) + device, 0, false},
		{"short", "\x05\x01", 0, false},
		{"cut off", "\x05\x01\x00\x00\xff\x00\x05\x00", 0, false},
	} {
		index, speed, ok := speedIn([]byte(tt.message))
		if ok != tt.ok || ok && (index != 7 || speed != tt.speed) {
			t.Errorf("%s: device %d, %d Mbit/s, %v; want device 7, %d Mbit/s, %v", tt.name, index, speed, ok, tt.speed, tt.ok)
		}
	}
}
