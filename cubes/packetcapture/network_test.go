// SPDX-License-Identifier: Apache-2.0

package packetcapture_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// queued is the container `packet`.
type queued struct {
	CaptureLength int    `json:"capturelen"`
	Length        int    `json:"packetlen"`
	Seconds       int64  `json:"timestamp-seconds"`
	Microseconds  int64  `json:"timestamp-microseconds"`
	Nanoseconds   int64  `json:"timestamp-nanoseconds"`
	Direction     string `json:"direction"`
	RawData       []byte `json:"rawdata"`
}

// pop reads the container.
func (r *rig) pop() (q queued) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.Read("pc packet")), &q); err != nil {
		r.t.Fatal(err)
	}
	return q
}

// waits waits until so many packets are in the queue.
func (r *rig) waits(n int) {
	r.t.Helper()
	netns.Eventually(r.t, bpftest.Patience, func() error {
		if got := r.Read("pc statistics queued"); got != fmt.Sprint(n) && got != fmt.Sprintf("%q", fmt.Sprint(n)) {
			return fmt.Errorf("%s packets wait, want %d", got, n)
		}
		return nil
	})
}

func TestAReadOfThePacketTakesIt(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l, `,"capture":"BIDIRECTIONAL","filter":"all","networkmode":true,"snaplen":100`)
		if q := r.pop(); q.Length != 0 || q.Direction != "" || len(q.RawData) != 0 {
			t.Errorf("an empty queue has %+v", q)
		}
		before := time.Now().Add(-time.Millisecond)
		r.in(udp4)
		r.out(tcp4)
		r.waits(2)
		for range 2 { // neither the whole cube nor a leaf takes a packet
			l.Read("pc")
			if got := l.Read("pc packet packetlen"); got != fmt.Sprint(len(udp4)) {
				t.Errorf("packetlen is %s", got)
			}
		}
		for _, want := range []queued{
			{CaptureLength: 100, Length: len(udp4), Direction: "INGRESS", RawData: udp4[:100]},
			{CaptureLength: len(tcp4), Length: len(tcp4), Direction: "EGRESS", RawData: tcp4},
			{},
		} {
			got := r.pop()
			at := time.Unix(got.Seconds, got.Nanoseconds)
			if want.Length > 0 && (at.Before(before) || at.After(time.Now().Add(time.Millisecond)) || got.Microseconds != got.Nanoseconds/1000) {
				t.Errorf("captured at %v", at)
			}
			got.Seconds, got.Microseconds, got.Nanoseconds = 0, 0, 0
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		if s := r.settled(); s.Delivered != 2 || len(names(t, r.dir)) != 0 {
			t.Errorf("%+v, files %v", s, names(t, r.dir))
		}
	})
}

// answer is the output of the action read.
type answer struct {
	Packets int
	Header  []byte
	Records []byte
	Lost    json.Number
}

func (r *rig) read(most int) (a answer) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.Action("pc read", fmt.Sprintf(`{"max":%d}`, most))), &a); err != nil {
		r.t.Fatal(err)
	}
	return a
}

func TestTheActionReadTakesManyPackets(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all"`)
	if _, err := l.TryAction("pc read", `{}`); err == nil {
		t.Error("packets were read that are written to a file")
	}
	l.Set("PATCH", "pc", `{"networkmode":true,"timestamps":"NANOSECONDS"}`)
	for i := range 5 {
		r.in(pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").UDP(uint16(i), 53).Payload(200).Bytes())
	}
	r.waits(5)
	var file bytes.Buffer
	for i, n := range []int{2, 2, 1, 0} {
		a := r.read(2)
		if a.Packets != n {
			t.Errorf("read %d returned %d packets, want %d", i, a.Packets, n)
		}
		if i == 0 {
			file.Write(a.Header)
		}
		file.Write(a.Records)
	}
	p, err := pcapgo.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		data, _, err := p.ReadPacketData()
		if err != nil || data[35] != byte(i) {
			t.Errorf("packet %d is %x (%v)", i, data, err)
		}
	}
	if l.Read("pc packet rawdata") != `""` {
		t.Error("packets are left")
	}
	r.in(udp4)
	r.in(udp4)
	r.waits(2)
	var a answer
	if err := json.Unmarshal([]byte(l.Action("pc read", "{}")), &a); err != nil || a.Packets != 2 {
		t.Errorf("without a maximum: %d packets (%v)", a.Packets, err)
	}
}

func TestAReaderThatIsTooSlowLosesTheLastPackets(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"all","networkmode":true,"snaplen":64`)
	r.in(tcp4)
	sent := uint64(1)
	var s statistics
	netns.Eventually(t, pace.Stretch(40*time.Second), func() error {
		l.Flood("veth1", udp4, 10000)
		sent += 10000
		if err := json.Unmarshal([]byte(l.Read("pc statistics")), &s); err != nil || s.LostQueue == 0 {
			return fmt.Errorf("nothing is lost: %+v, %w", s, err)
		}
		return nil
	})
	netns.Eventually(t, bpftest.Patience, func() error {
		if err := json.Unmarshal([]byte(l.Read("pc statistics")), &s); err != nil || s.Captured != s.Queued+s.LostQueue || s.Captured+s.LostRing != sent {
			return fmt.Errorf("of %d packets: %+v, %w", sent, s, err)
		}
		return nil
	})
	if s.Queued != 1<<17 {
		t.Errorf("%d packets wait", s.Queued)
	}
	if got := r.pop().RawData; !bytes.Equal(got, tcp4) {
		t.Errorf("the first packet is %s", base64.StdEncoding.EncodeToString(got))
	}
	total := 1
	for {
		a := r.read(65535)
		if total += a.Packets; a.Packets == 0 {
			if lost, _ := a.Lost.Int64(); uint64(lost) != s.LostQueue+s.LostRing {
				t.Errorf("lost is %v, want %d", a.Lost, s.LostQueue+s.LostRing)
			}
			break
		}
	}
	if total != 1<<17 {
		t.Errorf("%d packets were read", total)
	}
	r.in(udp4) // there is room again
	r.waits(1)
}

func TestACaptureContinuesAfterARestart(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l, `,"capture":"INGRESS","filter":"udp","snaplen":64`)
		r.in(udp4)
		captured(t, r.file("out.pcap"), udp4[:64])
		wires := l.Wires()
		l.Restart(func() { // programs copy packets while no daemon reads them
			wires[0].Puts(udp4)
			wires[0].Puts(tcp4)
			wires[1].Gets(udp4)
		})
		r.in(udp6)
		r.in(tcp4)
		captured(t, r.file("out_00001.pcap"), udp4[:64], udp6[:64])
	})
}

func TestWithoutTcpdumpProgramsContinue(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `,"capture":"INGRESS","filter":"udp"`)
	path := os.Getenv("PATH")
	l.Restart(func() { t.Setenv("PATH", t.TempDir()) })
	wantLog(t, l, "install the package tcpdump")
	r.in(udp4)
	l.Restart(func() { t.Setenv("PATH", path) })
	captured(t, r.file("out.pcap"), udp4)
}
