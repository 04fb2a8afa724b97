// SPDX-License-Identifier: Apache-2.0

package inspect

// Captures of real traffic, beside ndpiReader. They are those of nDPI's own tests: scripts/deps.sh captures fetches them.

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/flow"
)

// longestFrame is what a test run takes.
const longestFrame = 3000

// capture reads the frames of a file; nil if it is not one of Ethernet, or has frames that are too long for a test run.
func capture(t *testing.T, path string) (frames []frame) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil || r.LinkType() != layers.LinkTypeEthernet {
		return nil
	}
	for {
		data, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil || len(data) < 34 || len(data) > longestFrame || info.CaptureLength < info.Length {
			return nil
		}
		frames = append(frames, frame{false, data})
	}
}

// begin forgets all flows.
func (r *rig) begin(t *testing.T) {
	t.Helper()
	m := r.worker.module
	r.worker.close()
	r.worker = newWorker(m, r.tables, 16, 10000, &r.counts, r.worker.risk)
	for _, name := range []string{"flows", "decisions"} {
		table := r.Map("c", name)
		for key := make([]byte, table.KeySize()); ; {
			if err := table.NextKey(nil, key); errors.Is(err, ebpf.ErrKeyNotExist) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if err := table.Delete(key); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// tunnels are captures of tunnels, into which ndpiReader looks: a flow of the cube is the tunnel.
var tunnels = []string{"4in4tunnel.pcap", "4in6tunnel.pcap", "6in4tunnel.pcap", "6in6tunnel.pcap"}

// ofEnds returns the flows with these ends, in either direction; of ICMP all, since ndpiReader shows no identifier.
func ofEnds(is map[string]found, ends string) (all []string) {
	f := strings.Fields(ends)
	for other := range is {
		g := strings.Fields(other)
		same := g[0] == f[0] && g[2] == f[2] || g[0] == f[2] && g[2] == f[0]
		if other == ends || other == turned(ends) || same && f[1] == "0" && f[3] == "0" && g[1] == g[3] {
			all = append(all, other)
		}
	}
	return all
}

// turned are the ends of a flow, the other one first.
func turned(ends string) string {
	f := strings.Fields(ends)
	return strings.Join([]string{f[2], f[3], f[0], f[1]}, " ")
}

// canonical writes addresses as RFC 5952 has it.
func canonical(ends string) string {
	f := strings.Fields(ends)
	return strings.Join([]string{netipAddr(f[0]).String(), f[1], netipAddr(f[2]).String(), f[3]}, " ")
}

// kinds counts what captures have.
type kinds struct{ four, six, vlan, fragments int }

func (k *kinds) add(frames []frame) {
	for _, f := range frames {
		is, _ := flow.Read(f.bytes)
		if is.Has&flow.IP == 0 {
			continue
		}
		if is.Has&flow.IPv6 != 0 {
			k.six++
		} else {
			k.four++
		}
		if is.VLAN != flow.Untagged {
			k.vlan++
		}
		if is.Fragment != flow.Whole {
			k.fragments++
		}
	}
}

// tally is what a comparison has found.
type tally struct {
	captures, equal, all, silent, inspected int
	protocols                               map[string]bool
	has                                     kinds
}

// compare compares what the cube knows of the flows of a capture with what ndpiReader says.
func (c *tally) compare(t *testing.T, name string, is map[string]found, peer map[string]string) {
	t.Helper()
	for ends, want := range peer {
		ends = canonical(ends)
		var got found
		for _, other := range ofEnds(is, ends) {
			if got.protocol != want {
				got = is[other] // of several flows of ICMP, an equal one
			}
			delete(is, other)
		}
		if got.state == "NEW" {
			c.silent++ // no packet has payload: ndpiReader guesses by the port
			continue
		}
		c.all++
		if got.protocol != want {
			t.Logf("%s: flow %s is %+v, ndpiReader says %q", name, ends, got, want)
			continue
		}
		c.equal++
		c.protocols[want] = true
	}
	for ends, got := range is { // ndpiReader lists no flow that is unknown
		if c.all++; got.protocol == "" || got.protocol == "Unknown" {
			c.equal++
			continue
		}
		t.Logf("%s: flow %s is %+v, ndpiReader does not know it", name, ends, got)
	}
}

func TestRealCapturesAreOfTheProtocolsThatNdpiReaderFinds(t *testing.T) {
	if _, err := exec.LookPath("ndpiReader"); err != nil {
		t.Skip("there is no ndpiReader: install libndpi-bin")
	}
	paths, err := filepath.Glob("../../.cache/captures/*.pcap")
	if err != nil || len(paths) == 0 {
		t.Skipf("there are no captures (%v): scripts/deps.sh captures fetches them", err)
	}
	r := newRig(t, `{"timeout":3600,"tcp-timeout":3600,"ended-timeout":3600}`, 16, 10000)
	c := tally{protocols: map[string]bool{}}
	for _, path := range paths {
		frames := capture(t, path)
		if len(frames) == 0 || slices.Contains(tunnels, filepath.Base(path)) {
			continue
		}
		c.captures++
		c.has.add(frames)
		r.begin(t)
		for _, f := range frames {
			r.RunAll("veth1", [][]byte{f.bytes})
			r.tables.Packets.Read(r.worker.see)
		}
		r.silence(t)
		is, inspected := r.flows(t)
		c.inspected = max(c.inspected, inspected)
		c.compare(t, filepath.Base(path), is, peer(t, frames))
	}
	t.Logf("%d captures with %+v packets: %d of %d flows equal, %d without payload, %d protocols: %v, at most %d packets inspected of a flow",
		c.captures, c.has, c.equal, c.all, c.silent, len(c.protocols), slices.Sorted(maps.Keys(c.protocols)), c.inspected)
	if c.captures < 30 || c.equal*100 < c.all*99 || len(c.protocols) < 25 || c.inspected > 24 || c.has.four == 0 || c.has.six == 0 || c.has.vlan == 0 || c.has.fragments == 0 {
		t.Error("want 30 captures of both families, VLANs and fragments, 25 protocols, and 99 % of flows equal with at most 24 packets each")
	}
}
