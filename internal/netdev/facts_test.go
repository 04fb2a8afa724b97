// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"testing"

	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
)

// TestFacts: what the kernel says of kinds of devices, and of offloads as they are switched.
func TestFacts(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
	lab.Run("ip", "link", "add", "br0", "type", "bridge")
	lab.Run("ip", "link", "set", "lo", "up")
	tests := []struct {
		name, driver      string
		native, redirects bool
	}{{"v0", "veth", true, true}, {"br0", "bridge", false, false}, {"lo", "", false, false}}
	for _, tt := range tests {
		lab.Must(func() error {
			f, err := FactsOf(tt.name)
			if err == nil && (f.Name != tt.name || f.Driver != tt.driver) {
				t.Errorf("%s: %+v", tt.name, f)
			}
			if err == nil && f.XDPKnown && (f.Native != tt.native || f.Redirects != tt.redirects || f.Fragments != tt.native) {
				t.Errorf("%s: %+v", tt.name, f)
			}
			if err == nil && !f.XDPKnown && need.Linux(t, 6, 3) {
				t.Errorf("%s: the kernel tells what devices can do at XDP, which is not known: %+v", tt.name, f)
			}
			return err
		})
	}
	for _, on := range []bool{true, false, true} {
		lab.Run("ethtool", "-K", "v0", "gro", map[bool]string{true: "on", false: "off"}[on])
		lab.Must(func() error {
			f, err := FactsOf("v0")
			if f.GRO != on {
				t.Errorf("GRO is %v, want %v", f.GRO, on)
			}
			return err
		})
	}
	lab.Must(func() error {
		if _, err := FactsOf("none0"); !errors.Is(err, ErrNotFound) {
			t.Errorf("one that is not there: %v", err)
		}
		return nil
	})
}
