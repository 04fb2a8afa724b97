// SPDX-License-Identifier: Apache-2.0

// Offloads by name: what is asked of the kernel, and what ethtool says that it made of it.

package netdev

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// numbered are 70 offloads with names of their bits.
func numbered(blocks ...featureBlock) features {
	f := features{names: make([]string, 70), blocks: blocks}
	for i := range f.names {
		f.names[i] = fmt.Sprint("bit-", i)
	}
	f.names[5] = "" // unused
	return f
}

func TestOnlyWhatIsOnAndCanChangeIsAskedFor(t *testing.T) {
	const all = ^uint32(0)
	for _, c := range []struct {
		name   string
		have   features
		off    []string
		wishes []featureWish
		wanted []string
		fixed  []string
	}{
		{"the first and the last of a block", numbered(featureBlock{Available: all, Active: all}, featureBlock{}, featureBlock{}),
			[]string{"bit-0", "bit-31"}, []featureWish{{Valid: 1 | 1<<31}, {}, {}}, []string{"bit-0", "bit-31"}, nil},
		{"one in each block", numbered(featureBlock{Available: all, Active: all}, featureBlock{Available: 1, Active: 1}, featureBlock{Available: 32, Active: 32}),
			[]string{"bit-69", "bit-32", "bit-1"}, []featureWish{{Valid: 2}, {Valid: 1}, {Valid: 32}}, []string{"bit-69", "bit-32", "bit-1"}, nil},
		{"what is off already", numbered(featureBlock{Available: all, Requested: all, Active: 2}),
			[]string{"bit-0", "bit-1"}, []featureWish{{Valid: 2}}, []string{"bit-1"}, nil},
		{"what this kernel does not know", numbered(featureBlock{Available: all, Active: all}),
			[]string{"bit-99", "bit"}, []featureWish{{}}, nil, nil},
		{"what no block holds", numbered(featureBlock{Available: all, Active: all}),
			[]string{"bit-40"}, []featureWish{{}}, nil, nil},
		{"what the device does not offer", numbered(featureBlock{Available: 1, Active: 3}),
			[]string{"bit-0", "bit-1"}, []featureWish{{Valid: 1}}, []string{"bit-0"}, []string{"bit-1"}},
		{"what never changes", numbered(featureBlock{Available: all, Active: all, NeverChanged: 4}),
			[]string{"bit-2", "bit-3"}, []featureWish{{Valid: 8}}, []string{"bit-3"}, []string{"bit-2"}},
	} {
		wishes, wanted, err := c.have.off(c.off)
		if !slices.Equal(wishes, c.wishes) || !slices.Equal(wanted, c.wanted) {
			t.Errorf("%s: %v for %q, want %v for %q", c.name, wishes, wanted, c.wishes, c.wanted)
		}
		if errors.Is(err, errFixed) != (c.fixed != nil) {
			t.Errorf("%s: %v, want %q to be fixed", c.name, err, c.fixed)
		}
		for _, name := range c.fixed {
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v does not name %s", c.name, err, name)
			}
		}
	}
}

func TestOffloadsAreSwitchedOffByName(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
	shown := func() string { return lab.Run("ethtool", "-k", "a0") }
	before := shown()
	switched := func(names ...string) (changed []string, err error) {
		lab.Must(func() error { changed, err = switchOff("a0", names); return nil })
		return changed, err
	}
	names := slices.Concat(ownTags, []string{"no-such-offload", "tx-scatter-gather", ""})
	want := slices.Concat(ownTags, []string{"tx-scatter-gather"})
	if changed, err := switched(names...); err != nil || !slices.Equal(changed, want) {
		t.Fatalf("%q, %v, want %q", changed, err, want)
	}
	after := shown()
	for _, line := range []string{"rx-vlan-offload: %s\n", "rx-vlan-stag-hw-parse: %s\n", "tx-scatter-gather: %s\n"} {
		if !strings.Contains(before, fmt.Sprintf(line, "on")) || !strings.Contains(after, fmt.Sprintf(line, "off")) {
			t.Errorf("%q was not switched:\n%s", line, after)
		}
	}
	for _, line := range []string{"tx-vlan-offload: on\n", "tx-vlan-stag-hw-insert: on\n", "tx-checksumming: on\n"} {
		if !strings.Contains(after, line) {
			t.Errorf("%q was switched too:\n%s", line, after)
		}
	}
	if changed, err := switched(names...); err != nil || len(changed) != 0 {
		t.Errorf("again: %q, %v", changed, err)
	}
}

func TestAFixedOffloadIsNamedAndKeepsNoOtherOn(t *testing.T) {
	lab := netns.NewLab(t)
	if out := lab.Run("ethtool", "-k", "lo"); !strings.Contains(out, "\nloopback: on [fixed]\n") || !strings.Contains(out, "\ngeneric-receive-offload: on\n") {
		t.Fatalf("the loopback is not as the test needs it:\n%s", out)
	}
	lab.Must(func() error {
		changed, err := switchOff("lo", []string{"loopback", "rx-gro"})
		if !slices.Equal(changed, []string{"rx-gro"}) || !errors.Is(err, errFixed) || !strings.Contains(err.Error(), "lo: loopback: ") {
			t.Errorf("%q, %v, want rx-gro and an error that names the other", changed, err)
		}
		return nil
	})
	if out := lab.Run("ethtool", "-k", "lo"); !strings.Contains(out, "\ngeneric-receive-offload: off\n") {
		t.Error(out)
	}
}

func TestKindsWithoutTagsBesideAreLeftAlone(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "bridge0", "type", "bridge")
	lab.Run("ip", "tuntap", "add", "tap0", "mode", "tap")
	for _, name := range []string{"bridge0", "tap0", "lo"} {
		before := lab.Run("ethtool", "-k", name)
		if changed := prepare(t, lab, name); len(changed) != 0 {
			t.Errorf("%s: changed %q", name, changed)
		}
		if after := lab.Run("ethtool", "-k", name); after != before {
			t.Errorf("%s: changed\n%s\nto\n%s", name, before, after)
		}
	}
}

func TestADeviceThatIsGoneIsSaidToBe(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Must(func() error {
		for what, fn := range map[string]func() error{
			"readFeatures":  func() error { _, err := readFeatures("none0"); return err },
			"writeFeatures": func() error { return writeFeatures("none0", make([]featureWish, 2)) },
			"switchOff":     func() error { _, err := switchOff("none0", peerTags); return err },
		} {
			if err := fn(); !errors.Is(err, unix.ENODEV) || !strings.Contains(err.Error(), "none0") {
				t.Errorf("%s: %v, want ENODEV that names the device", what, err)
			}
		}
		return nil
	})
}
