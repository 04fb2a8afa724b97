// SPDX-License-Identifier: Apache-2.0

package inspect

// The cube and this program beside ndpiReader: the same packets must be of the same protocols.

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/internal/ndpi"
	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // the cube, and what it is attached to
	"github.com/polycube/polycube/test/netns"
)

func netipAddr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// rig is a cube with a worker.
type rig struct {
	*bpftest.Lab
	tables *dpi.Tables
	worker *worker
	counts Counts
	risks  []uint64
}

func newRig(t *testing.T, conf string, limit, flows int) *rig {
	t.Helper()
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("edpi", "c", conf)
	l.Attach("c", "f:p1")
	r := &rig{Lab: l}
	var err error
	if r.tables, err = dpi.Open(l.PinsOf("c")); err != nil {
		t.Fatal(err)
	}
	m, err := ndpi.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.tables.Announce("nDPI "+ndpi.Version(), m.Names()); err != nil {
		t.Fatal(err)
	}
	r.worker = newWorker(m, r.tables, limit, flows, &r.counts, func(_ *known, fresh uint64, _ time.Duration) { r.risks = append(r.risks, fresh) })
	t.Cleanup(func() {
		r.worker.close()
		m.Close()
		if err := r.tables.Close(); err != nil {
			t.Error(err)
		}
	})
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := r.Read("c category"); !strings.Contains(is, "Streaming") {
			return fmt.Errorf("categories are %s", is)
		}
		return nil
	})
	return r
}

// see takes a packet as a batch of its own.
func (w *worker) see(p *ring.Packet) {
	w.take(p)
	w.work()
}

// play runs a talk's frames through the cube, with the worker behind it.
func (r *rig) play(t *testing.T, frames []frame) {
	t.Helper()
	for _, f := range frames {
		dev := "veth1"
		if f.fromServer {
			dev = "veth2"
		}
		if _, _, err := r.TryBytes(dev, f.bytes); err != nil {
			t.Fatal(err)
		}
		r.tables.Packets.Read(r.worker.see)
	}
}

// silence decides what is silent.
func (r *rig) silence(t *testing.T) {
	t.Helper()
	now, err := cube.Time()
	if err != nil {
		t.Fatal(err)
	}
	r.worker.sweep(time.Duration(now) + guessAfter + time.Second)
}

// found is what is known of a flow.
type found struct{ protocol, state string }

// flows are those of the cube, by their ends.
func (r *rig) flows(t *testing.T) (all map[string]found, inspected int) {
	t.Helper()
	all = map[string]found{}
	for raw := range r.Entries("c flow") {
		var e struct {
			Source          string `json:"source"`
			Destination     string `json:"destination"`
			SourcePort      int    `json:"source-port"`
			DestinationPort int    `json:"destination-port"`
			Application     string `json:"application"`
			Carrier         string `json:"carrier"`
			State           string `json:"state"`
			Inspected       int    `json:"inspected"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		name := e.Application
		if e.Carrier != "" {
			name = e.Carrier + "." + name
		}
		all[fmt.Sprintf("%s %d %s %d", e.Source, e.SourcePort, e.Destination, e.DestinationPort)] = found{name, e.State}
		inspected = max(inspected, e.Inspected)
	}
	return all, inspected
}

// peer is what ndpiReader says about a capture, by the ends of flows.
func peer(t *testing.T, frames []frame) map[string]string {
	t.Helper()
	dir := t.TempDir()
	pcap, out := filepath.Join(dir, "a.pcap"), filepath.Join(dir, "a.csv")
	writePcap(t, pcap, frames)
	ctx, cancel := context.WithTimeout(t.Context(), bpftest.Patience)
	defer cancel()
	if text, err := exec.CommandContext(ctx, "ndpiReader", "-q", "-i", pcap, "-C", out).CombinedOutput(); err != nil {
		t.Fatalf("ndpiReader: %v: %s", err, text)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := csv.NewReader(f)
	c.FieldsPerRecord, c.LazyQuotes = -1, true
	lines, err := c.ReadAll()
	if err != nil || len(lines) < 1 {
		t.Fatalf("ndpiReader's flows are %v, error %v", lines, err)
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	all := map[string]string{}
	for _, l := range lines[1:] {
		all[strings.Join([]string{l[column["src_ip"]], l[column["src_port"]], l[column["dst_ip"]], l[column["dst_port"]]}, " ")] = l[column["ndpi_proto"]]
	}
	return all
}

func TestFlowsAreOfTheProtocolsThatNdpiReaderFinds(t *testing.T) {
	if _, err := exec.LookPath("ndpiReader"); err != nil {
		t.Skip("there is no ndpiReader: install libndpi-bin")
	}
	r := newRig(t, "", 16, 1000)
	equal, all, protocols := 0, 0, map[string]bool{}
	for n, talk := range talks(t) {
		frames := talk.frames(n)
		r.play(t, frames)
		r.silence(t)
		is, _ := r.flows(t)
		want := peer(t, frames)
		if len(want) == 0 { // it lists no flow that is unknown
			f := talk.framer(n)
			want = map[string]string{fmt.Sprintf("%s %d %s %d", f.client, f.sport, f.server, f.port): "Unknown"}
		}
		for ends, want := range want {
			got, ok := is[ends]
			if talk.protocol != udp && talk.protocol != tcp { // ndpiReader shows no identifier of ICMP
				f := strings.Fields(ends)
				for other, o := range is {
					if g := strings.Fields(other); g[0] == f[0] && g[2] == f[2] {
						got, ok = o, true
					}
				}
			}
			all++
			if !ok || got.protocol != want {
				t.Logf("%s: flow %s is %+v (found: %v), ndpiReader says %q", talk.name, ends, got, ok, want)
				continue
			}
			equal++
			if want != "Unknown" {
				protocols[want] = true
			}
		}
	}
	_, inspected := r.flows(t)
	t.Logf("%d of %d flows equal, %d protocols, at most %d packets inspected of a flow", equal, all, len(protocols), inspected)
	if equal*100 < all*99 || len(protocols) < 25 || all < 30 || inspected > 24 {
		t.Errorf("want 99 %% of at least 30 flows, of 25 protocols, with at most 24 packets each")
	}
}
