// SPDX-License-Identifier: Apache-2.0

package inspect

// The log and IPFIX, which tshark reads.

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
)

// sample is a flow that has ended: the higher end has begun it.
func sample(t *testing.T) *record {
	t.Helper()
	now, err := cube.Time()
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) inet.Address { return inet.AddressOf(netipAddr(text)) }
	return &record{
		Ended: dpi.Ended{
			Key: dpi.Key{Low: at("10.0.0.9"), High: at("10.0.0.1"), LowPort: flow.Port{1, 187}, HighPort: flow.Port{0x9c, 0x40}, Protocol: 6},
			Flow: dpi.Flow{
				ID: now - 5e9, Last: now - 1e9, Packets: [2]uint64{3, 4}, Bytes: [2]uint64{300, 400},
				Class: dpi.Class{Risks: 2}, Flags: dpi.Reverse | dpi.Decided | dpi.FinLow | dpi.FinHigh,
			},
		},
		details: details{host: "www.youtube.com"}, protocol: "YouTube", carrier: "TLS", category: "Media",
	}
}

func TestALineHasTheFieldsOfEVE(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eve.json")
	l, err := openLog(path, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	l.put(sample(t).flowEvent())
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if e.Type != "flow" || e.SrcIP != "10.0.0.1" || e.SrcPort != 40000 || e.DestIP != "10.0.0.9" || e.DestPort != 443 || e.Proto != "TCP" || e.AppProto != "youtube" {
		t.Errorf("the ends are %s", text)
	}
	if n := e.NDPI; n.Protocol != "YouTube" || n.Carrier != "TLS" || n.Category != "Media" || n.Host != "www.youtube.com" || len(n.Risks) != 1 {
		t.Errorf("what nDPI says is %s", text)
	}
	if f := e.Flow; f.PacketsToServer != 4 || f.BytesToServer != 400 || f.PacketsToClient != 3 || f.BytesToClient != 300 || f.Age != 4 || f.State != "closed" {
		t.Errorf("what was counted is %s", text)
	}
	if _, err := time.Parse(eveTime, e.Timestamp); err != nil {
		t.Error(err)
	}
}

func TestALogThatIsRenamedIsWrittenAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eve.json")
	l, err := openLog(path, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.reopen(); err != nil {
		t.Fatal(err)
	}
	l.put(sample(t).flowEvent())
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if is, err := os.ReadFile(path); err != nil || !bytes.Contains(is, []byte(`"YouTube"`)) {
		t.Errorf("the new file has %q, %v", is, err)
	}
	if _, err := openLog(filepath.Join(path, "x"), l.log); err == nil || !strings.Contains(err.Error(), "--log") {
		t.Errorf("a log that cannot be opened: %v", err)
	}
}

// messages are what a collector gets.
func messages(t *testing.T, send func(x *exporter)) (all [][]byte) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x, err := newExporter(c.LocalAddr().String(), 7)
	if err != nil {
		t.Fatal(err)
	}
	send(x)
	if err := x.close(time.Now()); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second)) // loopback: all of them are there
	for b := make([]byte, 65536); ; {
		n, _, err := c.ReadFrom(b)
		if err != nil {
			return all
		}
		all = append(all, bytes.Clone(b[:n]))
	}
}

func TestFlowsAreExported(t *testing.T) {
	six := sample(t)
	six.Key.Low, six.Key.High = inet.AddressOf(netipAddr("2001:db8::9")), inet.AddressOf(netipAddr("2001:db8::1"))
	six.carrier = ""
	all := messages(t, func(x *exporter) {
		x.add(sample(t), time.Now())
		x.add(six, time.Now())
	})
	if len(all) != 1 {
		t.Fatalf("%d messages, want one", len(all))
	}
	path := filepath.Join(t.TempDir(), "ipfix.pcap")
	f := &framer{talk: talk{port: 4739}, client: netipAddr("10.0.0.1"), server: netipAddr("10.0.0.2"), sport: 40000}
	f.datagram(false, all[0])
	writePcap(t, path, f.out)
	ctx, cancel := context.WithTimeout(t.Context(), bpftest.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tshark", "-r", path, "-d", "udp.port==4739,cflow", "-V").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"Version: 10", "Observation Domain Id: 7", "SrcAddr: 10.0.0.1", "DstAddr: 10.0.0.9", "SrcPort: 40000", "DstPort: 443", "Protocol: TCP (6)",
		"Octets: 400", "Packets: 4", "Octets: 300 (Reverse", "ApplicationName: TLS.YouTube", "SrcAddr: 2001:db8::1", "ApplicationName: YouTube",
		"Application Category Name: Media", "End of Flow detected (3)",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("tshark does not see %q:\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "Malformed") {
		t.Errorf("the message is malformed:\n%s", out)
	}
}

func TestManyFlowsAreSeveralMessages(t *testing.T) {
	const flows = 100
	sequence, records := uint32(0), 0
	for i, m := range messages(t, func(x *exporter) {
		for range flows {
			x.add(sample(t), time.Now())
		}
	}) {
		if len(m) > longest || int(binary.BigEndian.Uint16(m[2:])) != len(m) {
			t.Errorf("message %d has %d bytes", i, len(m))
		}
		if got := binary.BigEndian.Uint32(m[8:]); got != sequence {
			t.Errorf("message %d has the number %d, want %d", i, got, sequence)
		}
		for at := 16; at < len(m); at += int(binary.BigEndian.Uint16(m[at+2:])) {
			if binary.BigEndian.Uint16(m[at:]) != templateSet {
				records++
				sequence++
			}
		}
	}
	if records != flows {
		t.Errorf("%d flows were exported, want %d", records, flows)
	}
}
