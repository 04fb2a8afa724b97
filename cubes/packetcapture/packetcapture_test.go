// SPDX-License-Identifier: Apache-2.0

package packetcapture_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const macA, macB = "02:00:00:00:00:01", "02:00:00:00:00:02"

var (
	udp4 = pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(200).Bytes()
	tcp4 = pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes()
	udp6 = pkt.Eth(macA, macB).IPv6("fd00::1", "fd00::2").UDP(1000, 53).Payload(30).Bytes()
	tag4 = pkt.Eth(macA, macB).VLAN(7).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(200).Bytes()
)

func TestExamplesOfTheReadme(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	bpftest.Readme(t, "README.md")
}

// statistics is the container of that name.
type statistics struct {
	Captured  uint64 `json:"captured"`
	Delivered uint64 `json:"delivered"`
	Queued    uint64 `json:"queued"`
	LostRing  uint64 `json:"lost-ring"`
	LostQueue uint64 `json:"lost-queue"`
	LostFile  uint64 `json:"lost-file"`
}

// rig is a cube on the first port of a forwarder, and the directory of its files.
type rig struct {
	*bpftest.Lab
	t   *testing.T
	dir string
}

// newRig creates the cube; `body` has what differs from the defaults.
func newRig(t *testing.T, l *bpftest.Lab, body string) *rig {
	t.Helper()
	r := &rig{l, t, t.TempDir()}
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("packetcapture", "pc", fmt.Sprintf(`{"dump":%q%s}`, r.dir+"/out", body))
	l.Attach("pc", "f:p1")
	return r
}

// in and out send a frame through the cube in a direction: what is captured is what is sent on, unchanged.
func (r *rig) in(frame []byte)  { r.send("veth1", "f:p2", frame) }
func (r *rig) out(frame []byte) { r.send("veth2", "f:p1", frame) }

func (r *rig) send(from, to string, frame []byte) {
	r.t.Helper()
	got, sent := r.RunBytes(from, frame)
	if want := (bpftest.Outcome{Verdict: "send", Sent: to}); got != want || !bytes.Equal(sent, frame) {
		r.t.Errorf("from %s: %+v with %x, want %+v with %x", from, got, sent, want, frame)
	}
}

// record is a packet of a file.
type record struct {
	at     time.Time
	data   []byte
	length int
}

// readPcap reads a file, or as much as there is of it.
func readPcap(t testing.TB, file string) (out []record, snap uint32) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	p, err := pcapgo.NewReader(f)
	if err != nil {
		return nil, 0
	}
	for {
		data, info, err := p.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return out, p.Snaplen()
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, record{info.Timestamp, data, info.Length})
	}
}

// captured waits for the packets of a file.
func captured(t testing.TB, file string, want ...[]byte) []record {
	t.Helper()
	var got []record
	netns.Eventually(t, bpftest.Patience, func() error {
		got, _ = readPcap(t, file)
		if len(got) != len(want) {
			return fmt.Errorf("%s has %d packets, want %d", filepath.Base(file), len(got), len(want))
		}
		return nil
	})
	for i, frame := range want {
		if !bytes.Equal(got[i].data, frame) {
			t.Errorf("packet %d is %x, want %x", i, got[i].data, frame)
		}
	}
	return got
}

// settled waits until every packet has been written, read or counted.
func (r *rig) settled() (s statistics) {
	r.t.Helper()
	netns.Eventually(r.t, bpftest.Patience, func() error {
		if err := json.Unmarshal([]byte(r.Read("pc statistics")), &s); err != nil {
			return err
		}
		if s.Captured != s.Delivered+s.LostQueue+s.LostFile {
			return fmt.Errorf("packets are on their way: %+v", s)
		}
		return nil
	})
	return s
}

func (r *rig) file(name string) string { return filepath.Join(r.dir, name) }

func TestPacketsOfADirectionAreCaptured(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l, "")
		var want [][]byte
		for _, tt := range []struct {
			capture, filter string
			in, out         bool
		}{
			{"", "", false, false},
			{"BIDIRECTIONAL", "", false, false}, // the default filter captures nothing
			{"OFF", "all", false, false},
			{"INGRESS", "all", true, false},
			{"EGRESS", "all", false, true},
			{"BIDIRECTIONAL", "all", true, true},
			{"BIDIRECTIONAL", "udp", true, true},
			{"BIDIRECTIONAL", "tcp", false, false},
			{"BIDIRECTIONAL", "", false, false},
		} {
			if tt.capture != "" {
				l.Set("PATCH", "pc", fmt.Sprintf(`{"capture":%q,"filter":%q}`, tt.capture, tt.filter))
			}
			r.in(udp4)
			r.out(udp6)
			if tt.in {
				want = append(want, udp4)
			}
			if tt.out {
				want = append(want, udp6)
			}
			if s := r.settled(); s.Captured != uint64(len(want)) {
				t.Errorf("%s %q: %d packets were captured, want %d", tt.capture, tt.filter, s.Captured, len(want))
			}
		}
		captured(t, r.file("out.pcap"), want...)
		if c := l.Counters("f", "p1"); c.RxPackets != 9 || c.TxPackets != 9 {
			t.Errorf("%+v crossed the port, want 9 in each direction", c)
		}
	})
}

func TestTheFilterRunsInTheProgram(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l, `,"capture":"INGRESS","filter":"tcp port 80"`)
		for _, tt := range []struct {
			filter string
			want   [][]byte
		}{
			{"", [][]byte{tcp4}},
			{"ip6", [][]byte{udp6}},
			{"vlan 7", [][]byte{tag4}},
			{"vlan 8", nil},
			{"less 60", [][]byte{tcp4}},
			{"udp port 53", [][]byte{udp4, udp6}},
			{"vlan and udp port 53", [][]byte{tag4}},
			{"all", [][]byte{udp4, tcp4, udp6, tag4}},
		} {
			before := len(read(t, r.file("out.pcap")))
			if tt.filter != "" {
				l.Set("PATCH", "pc filter", fmt.Sprintf("%q", tt.filter))
			}
			for _, frame := range [][]byte{udp4, tcp4, udp6, tag4} {
				r.in(frame)
			}
			r.settled()
			got := read(t, r.file("out.pcap"))[before:]
			if !slices.EqualFunc(got, tt.want, func(r record, frame []byte) bool { return bytes.Equal(r.data, frame) }) {
				t.Errorf("%q captured %d packets, want %d: %v", tt.filter, len(got), len(tt.want), got)
			}
		}
	})
}

func read(t testing.TB, file string) []record {
	t.Helper()
	out, _ := readPcap(t, file)
	return out
}

func TestAWrongFilterIsRefusedAndChangesNothing(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"udp"`)
	for filter, says := range map[string]string{
		"tcp prot 80":             "syntax error",
		"host":                    "syntax error",
		"port 99999":              "99999",
		strings.Repeat("x", 2000): "",
	} {
		err := l.Try("PATCH", "pc filter", fmt.Sprintf("%q", filter))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", filter, err, says)
		}
	}
	if got := l.Read("pc filter"); got != `"udp"` {
		t.Errorf("the filter is %s", got)
	}
	r.in(udp4)
	captured(t, r.file("out.pcap"), udp4)
	if err := l.TryCreate("packetcapture", "pc2", `{"filter":"no such thing"}`); err == nil {
		t.Error("a cube with a wrong filter was created")
	}
}

func TestTheSnapLengthCutsPackets(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l, `,"capture":"INGRESS","filter":"all"`)
		long := pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(1400).Bytes()
		for i, tt := range []struct{ snap, header, data int }{
			{0, 262144, len(long)}, {64, 64, 64}, {128, 128, 128}, {129, 129, 129}, {1000, 1000, 1000}, {1 << 31, 262144, len(long)},
		} {
			file := r.file("out.pcap")
			if i > 0 {
				file = r.file(fmt.Sprintf("out_%05d.pcap", i))
			}
			l.Set("PATCH", "pc snaplen", fmt.Sprint(tt.snap))
			r.in(long)
			got := captured(t, file, long[:tt.data])
			if _, snap := readPcap(t, file); int(snap) != tt.header || got[0].length != len(long) {
				t.Errorf("snaplen %d: the file says %d and %d bytes, want %d and %d", tt.snap, snap, got[0].length, tt.header, len(long))
			}
			if got := l.Read("pc globalheader snaplen"); got != fmt.Sprint(tt.header) {
				t.Errorf("snaplen %d: globalheader has %s", tt.snap, got)
			}
		}
	})
}

func TestTimestampsAreThoseOfTheWorld(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all"`)
	for i, resolution := range []string{"MICROSECONDS", "NANOSECONDS"} {
		l.Set("PATCH", "pc timestamps", fmt.Sprintf("%q", resolution))
		before := time.Now()
		for range 20 {
			r.in(udp4)
		}
		after := time.Now()
		r.settled()
		name := [...]string{"out.pcap", "out_00001.pcap"}[i]
		fine := false
		for _, p := range read(t, r.file(name)) {
			if p.at.Before(before.Add(-time.Millisecond)) || p.at.After(after.Add(time.Millisecond)) {
				t.Errorf("%s: %v is not between %v and %v", resolution, p.at, before, after)
			}
			fine = fine || p.at.Nanosecond()%1000 != 0
		}
		if fine != (resolution == "NANOSECONDS") {
			t.Errorf("%s: nanoseconds are there: %t", resolution, fine)
		}
		magic := map[string]uint32{"MICROSECONDS": 0xa1b2c3d4, "NANOSECONDS": 0xa1b23c4d}[resolution]
		if got := l.Read("pc globalheader magic"); got != fmt.Sprint(magic) {
			t.Errorf("%s: magic is %s", resolution, got)
		}
	}
}

func TestAnonimizeHasNoEffect(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all","anonimize":true`)
	r.in(udp4)
	captured(t, r.file("out.pcap"), udp4)
	if got := l.Read("pc anonimize"); got != "true" {
		t.Errorf("it reads %s", got)
	}
}
