// SPDX-License-Identifier: Apache-2.0

package ndpi

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/pkt"
)

func module(t testing.TB, protocols, categories string) *Module {
	t.Helper()
	m, err := New(protocols, categories)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// query is a DNS query as an IP packet.
func query(port uint16) []byte {
	q := []byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x03com\x00\x00\x01\x00\x01")
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").UDP(4000, port).Data(q).Bytes()[14:]
}

// once is the answer about a flow of one packet.
func once(t *testing.T, m *Module, ip []byte, giveUp bool) (Answer, string) {
	t.Helper()
	f := m.NewFlow()
	defer f.Free()
	a := m.Packet(f, ip, time.Second)
	if giveUp {
		a = m.GiveUp(f)
	}
	return a, f.Host()
}

func TestAFlowIsRecognised(t *testing.T) {
	m := module(t, "", "")
	names := m.Names()
	a, host := once(t, m, query(53), false)
	if got := names[a.Protocol].String(); got != "DNS" || host != "www.example.com" || a.Flags != 0 {
		t.Errorf("a query is %q of %q, flags %d, want DNS of www.example.com", got, host, a.Flags)
	}
	if got := names[dpi.Protocols+int(a.Category)].String(); got != "Network" {
		t.Errorf("its category is %q, want Network", got)
	}
	syn := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").TCP(4000, 22, pkt.TCPFlags{SYN: true}).Bytes()[14:]
	a, _ = once(t, m, syn, true)
	if got := names[a.Protocol].String(); got != "SSH" || dpi.Flags(a.Flags)&dpi.Guessed == 0 {
		t.Errorf("a SYN to port 22 is %q, flags %d, want a guess of SSH", got, a.Flags)
	}
	if v := Version(); !strings.Contains(v, ".") {
		t.Errorf("the version is %q", v)
	}
	if r := Risk(1); r == "" || !strings.HasPrefix(r, names[dpi.Rows+1].String()) {
		t.Errorf("risk 1 is %q, announced as %q", r, names[dpi.Rows+1])
	}
}

func TestFilesAddProtocolsAndCategories(t *testing.T) {
	m := module(t, file(t, "udp:4242@Ours\n"), file(t, "10.0.0.2\t100\n"))
	names := m.Names()
	ip := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.9").UDP(4000, 4242).Payload(40).Bytes()[14:]
	if a, _ := once(t, m, ip, true); names[a.Protocol].String() != "Ours" {
		t.Errorf("port 4242 is %q, want Ours", names[a.Protocol])
	}
	if a, _ := once(t, m, query(53), true); a.Category != 100 {
		t.Errorf("the category of 10.0.0.2 is %d, want 100", a.Category)
	}
	if _, err := New(filepath.Join(t.TempDir(), "none"), ""); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a protocol file that does not exist: %v", err)
	}
	if _, err := New("", filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a category file that does not exist: %v", err)
	}
}

func TestPacketsThatAreCutOffAreShorterOnes(t *testing.T) {
	long := query(53)
	binary.BigEndian.PutUint16(long[2:], 1500)
	fit(long)
	if got := int(binary.BigEndian.Uint16(long[2:])); got != len(long) {
		t.Errorf("the length is %d, want %d", got, len(long))
	}
	six := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv6("2001:db8::1", "2001:db8::2").UDP(1, 2).Payload(100).Bytes()[14:94]
	fit(six)
	if got := int(binary.BigEndian.Uint16(six[4:])); got != 40 {
		t.Errorf("the payload's length is %d, want 40", got)
	}
	short := []byte{0x45}
	if fit(short); !bytes.Equal(short, []byte{0x45}) {
		t.Error("a header that is not there was written")
	}
}

// Any bytes may come as a packet.
func FuzzPacket(f *testing.F) {
	f.Add(query(53), query(53))
	f.Add(query(123), []byte{0x45})
	f.Add([]byte{}, []byte{0x60})
	m := module(f, "", "")
	f.Fuzz(func(t *testing.T, first, second []byte) {
		flow := m.NewFlow()
		defer flow.Free()
		m.Packet(flow, first, time.Second)
		m.Packet(flow, second, 2*time.Second)
		for _, r := range flow.Host() + flow.JA3() {
			if r < ' ' || r > '~' {
				t.Errorf("the host %q cannot be printed", flow.Host())
			}
		}
		m.GiveUp(flow)
	})
}
