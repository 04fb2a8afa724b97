// SPDX-License-Identifier: Apache-2.0

package pcapfilter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
)

const (
	macA = "02:00:00:00:00:0a"
	macB = "02:00:00:00:00:0b"
)

// frames are what the filters are tried on.
func frames() map[string][]byte {
	return map[string][]byte{
		"arp":         pkt.Eth(macA, "ff:ff:ff:ff:ff:ff").ARPRequest(macA, "10.0.0.1", "10.0.0.2").Bytes(),
		"ping":        pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").Echo(1, 2).Payload(40).Bytes(),
		"dns":         pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(40).Bytes(),
		"syn":         pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(),
		"get":         pkt.Eth(macB, macA).IPv4("10.0.0.2", "10.0.0.1").TCP(1000, 80, pkt.TCPFlags{}).Data([]byte("GET / HTTP/1.1\r\n")).Bytes(),
		"udp6":        pkt.Eth(macA, macB).IPv6("2001:db8::1", "2001:db8::2").UDP(1000, 53).Payload(9).Bytes(),
		"vlan":        pkt.Eth(macA, macB).VLAN(10).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(40).Bytes(),
		"cut off":     pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").TCP(1000, 80, pkt.TCPFlags{}).Bytes()[:30],
		"no ethernet": {1, 2, 3},
	}
}

// Expressions use every kind of load, jump and arithmetic that tcpdump makes.
var expressions = []string{
	"", "arp", "ip", "ip6", "icmp", "udp port 53", "tcp port 80", "host 10.0.0.1", "src net 10.0.0.0/30",
	"ether src 02:00:00:00:00:0b", "ether broadcast", "vlan 10", "vlan and udp", "not ip", "len > 60", "less 60",
	"tcp[tcpflags] & tcp-syn != 0", "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420",
	"ip[2:2] * 2 / 3 + 7 - 1 > 60 and ip[8] % 3 == 1", "ip[0] | 1 == 0x45 or ip[1] ^ 3 == 3",
	"ip[0] << (ip[0] & 0xf) > 3", "ip[0] >> (ip[0] & 3) != 0", "-(ip[9]) < 0", "udp[1000] == 3",
	"(ip[9] / (ip[8] - 64)) > 0", "portrange 50-90 and not icmp", "ip6[6] == 17", "ether[0] & 1 != 0",
	"udp or ether[40000:2] = 7", "udp[30000:4] = 7 or arp",
}

func TestFiltersMatchWhatTcpdumpMatches(t *testing.T) {
	dir := t.TempDir()
	for name, frame := range frames() {
		file := filepath.Join(dir, "frame.pcap")
		write(t, file, frame)
		for _, expression := range expressions {
			f, err := Compile(context.Background(), expression)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("tcpdump", "-r", file, "-w", "-", "--", expression).Output()
			if err != nil {
				t.Fatalf("tcpdump -r, %q: %v", expression, err)
			}
			const fileHeader = 24
			if want := len(out) > fileHeader; f.Match(frame, len(frame)) != want {
				t.Errorf("%s, %q: %t, tcpdump says %t", name, expression, !want, want)
			}
		}
	}
}

func write(t *testing.T, file string, frame []byte) {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	err := errors.Join(w.WriteFileHeader(65535, layers.LinkTypeEthernet),
		w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(frame), Length: len(frame)}, frame))
	if err = errors.Join(err, os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestBadFiltersAreAnsweredWithASentence(t *testing.T) {
	tests := map[string]struct {
		expression, says string
		is               error
	}{
		"nonsense":       {"bogus foo", `filter "bogus foo": can't parse filter expression: syntax error`, cube.ErrInvalid},
		"an option":      {"-w /tmp/x", "syntax error", cube.ErrInvalid},
		"too long":       {strings.Repeat("ip or ", 300) + "ip", "1802 characters, the limit is 1024", cube.ErrInvalid},
		"too much code":  {long(), "instructions, the limit is 256", cube.ErrInvalid},
		"NUL":            {"ip\x00", "NUL", cube.ErrInvalid},
		"another device": {"ifname eth0", "ifname", cube.ErrInvalid},
		"beside it":      {"inbound", "data that is not in the packet", cube.ErrUnsupported},
		"no such host":   {"host does-not-exist.invalid", "does-not-exist.invalid", cube.ErrInvalid},
		"never true":     {"ip and arp and 1 == 0", "rejects all packets", cube.ErrInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(context.Background(), tt.expression)
			if err == nil || !strings.Contains(err.Error(), tt.says) || !errors.Is(err, tt.is) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// long is an expression within the limit of characters that makes too many instructions.
func long() string {
	ports := make([]string, 90)
	for i := range ports {
		ports[i] = fmt.Sprintf("port %d", i)
	}
	return strings.Join(ports, " or ")
}

func TestWithoutTcpdumpTheErrorNamesThePackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Compile(context.Background(), "ip")
	if err == nil || !strings.Contains(err.Error(), "install the package tcpdump") || !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("%v, want one that names the package", err)
	}
}

func TestForeignCodeIsRefused(t *testing.T) {
	tests := map[string]string{
		"empty": "0\n", "not a number": "x\n1 2 3 4\n", "fewer lines": "2\n6 0 0 1\n", "no return": "1\n0 0 0 1\n",
		"a jump out":        "2\n21 0 9 1\n6 0 0 1\n",
		"a jump far":        "2\n5 0 0 4294967295\n6 0 0 1\n",
		"no such slot":      "2\n96 0 0 16\n6 0 0 1\n",
		"wrong store":       "2\n2 0 0 99\n6 0 0 1\n",
		"beside the packet": "2\n32 0 0 4294963244\n6 0 0 1\n",
		"eight bytes":       "2\n56 0 0 0\n6 0 0 1\n",
	}
	for name, text := range tests {
		if _, err := parse(text); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func FuzzProgramsNeverPanic(f *testing.F) {
	f.Add([]byte{0x28, 0, 0, 0, 12, 0, 0, 0, 0x15, 0, 0, 1, 0, 8, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0}, []byte("packet"))
	f.Fuzz(func(_ *testing.T, code, packet []byte) {
		var prog []instruction
		for ; len(code) >= 8 && len(prog) < maxInstructions; code = code[8:] {
			prog = append(prog, instruction{binary.LittleEndian.Uint16(code), code[2], code[3], binary.LittleEndian.Uint32(code[4:])})
		}
		if len(prog) == 0 || check(prog) != nil {
			return
		}
		filter := &Filter{prog: prog}
		filter.Match(packet, len(packet))
		filter.EBPF("f", Calls{"load", "length"})
	})
}
