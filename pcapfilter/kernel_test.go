// SPDX-License-Identifier: Apache-2.0

package pcapfilter

import (
	"bytes"
	"context"
	_ "embed" // the programs
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/filter.tc.o
	objectTC []byte
	//go:embed testdata/filter.xdp.o
	objectXDP []byte
)

var objects = map[cube.Hook][]byte{cube.TC: objectTC, cube.XDP: objectXDP}

// shortest is the length of the shortest frame of any protocol on which the kernel runs a program of TC for a test.
const shortest = 14 + 40

// compile compiles an expression that must be right.
func compile(t testing.TB, expression string) *Filter {
	t.Helper()
	f, err := Compile(context.Background(), expression)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// load loads the programs of a test with a filter.
func load(t testing.TB, f *Filter, hook cube.Hook) *ebpf.Collection {
	t.Helper()
	netns.NeedRoot(t)
	object, err := f.Object(objects[hook], hook, map[string]Action{
		"filtered": {"matched", 0xabcdef01, 7}, "unfiltered": {"ignored", 1, 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range spec.Programs {
		switch {
		case !strings.HasPrefix(name, "run"):
			delete(spec.Programs, name) // a function
		case hook == cube.XDP:
			p.Flags |= unix.BPF_F_XDP_HAS_FRAGS
		}
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// passes runs a program on a frame.
func passes(t testing.TB, c *ebpf.Collection, program string, frame []byte) bool {
	t.Helper()
	var got uint32
	err := netns.Uninterrupted(func() (err error) {
		got, err = c.Programs[program].Run(&ebpf.RunOptions{Data: frame})
		return err
	})
	if err != nil {
		t.Fatalf("run on %d bytes: %v", len(frame), err)
	}
	if got > 1 {
		t.Fatalf("the program returned %d", int32(got))
	}
	var seen uint64
	if err := c.Maps["seen"].Lookup(uint32(0), &seen); err != nil {
		t.Fatal(err)
	}
	if want := uint64(got) * 0xabcdef01_00000007; seen != want {
		t.Fatalf("matched was called with %#x, want %#x", seen, want)
	}
	return got == 1
}

// samples are frames and what random changes make of them: bytes, lengths and tags.
func samples(rnd *rand.Rand, n int) (out [][]byte) {
	for _, frame := range frames() {
		out = append(out, frame)
	}
	known := len(out)
	for len(out) < n {
		frame := bytes.Clone(out[rnd.IntN(known)])
		for range rnd.IntN(4) {
			if len(frame) > 14 {
				frame[rnd.IntN(min(len(frame), 60))] = byte(rnd.Uint32())
			}
		}
		switch rnd.IntN(4) {
		case 0:
			frame = frame[:rnd.IntN(len(frame))]
		case 1:
			frame = append(frame, make([]byte, rnd.IntN(600))...)
		case 2:
			if len(frame) >= 14 {
				frame = pkt.Tagged(frame, 0x8100<<16|uint32(rnd.IntN(16)))
			}
		}
		out = append(out, frame)
	}
	return out
}

// judge returns which frames tcpdump -r lets pass, with time stamps as their numbers.
func judge(t testing.TB, expression string, all [][]byte) []bool {
	t.Helper()
	file := filepath.Join(t.TempDir(), "frames.pcap")
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	err := w.WriteFileHeader(65535, layers.LinkTypeEthernet)
	for i, frame := range all {
		err = errors.Join(err, w.WritePacket(gopacket.CaptureInfo{
			Timestamp: time.Unix(int64(i), 0), CaptureLength: len(frame), Length: len(frame)}, frame))
	}
	if err = errors.Join(err, os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tcpdump", "-r", file, "-w", "-", "--", expression).Output()
	if err != nil {
		t.Fatalf("tcpdump -r, %q: %v", expression, err)
	}
	passed := make([]bool, len(all))
	const fileHeader, packetHeader = 24, 16
	for out = out[fileHeader:]; len(out) >= packetHeader; {
		passed[binary.LittleEndian.Uint32(out)] = true
		out = out[packetHeader+binary.LittleEndian.Uint32(out[8:]):]
	}
	return passed
}

func TestProgramsPassWhatTcpdumpPasses(t *testing.T) {
	all := samples(rand.New(rand.NewPCG(repeat.Seed(t), 0)), 600)
	for _, expression := range expressions {
		t.Run(expression, func(t *testing.T) { agrees(t, expression, all) })
	}
}

func TestRandomExpressionsPassWhatTcpdumpPasses(t *testing.T) {
	rnd := rand.New(rand.NewPCG(repeat.Seed(t), 1))
	all := samples(rnd, 150)
	for n := 0; n < 40; {
		expression := randomExpression(rnd, 3)
		if _, err := Compile(context.Background(), expression); err != nil {
			continue // it can never be true, or combines protocols that exclude each other
		}
		n++
		t.Run(expression, func(t *testing.T) { agrees(t, expression, all) })
	}
}

// randomExpression combines expressions of the list.
func randomExpression(rnd *rand.Rand, depth int) string {
	if depth == 0 || rnd.IntN(4) == 0 {
		return expressions[1+rnd.IntN(len(expressions)-1)]
	}
	one, other := randomExpression(rnd, depth-1), randomExpression(rnd, depth-1)
	switch rnd.IntN(3) {
	case 0:
		return "not (" + one + ")"
	case 1:
		return "(" + one + ") and (" + other + ")"
	}
	return "(" + one + ") or (" + other + ")"
}

// agrees checks that an expression passes the same frames everywhere.
func agrees(t *testing.T, expression string, all [][]byte) {
	t.Helper()
	want := judge(t, expression, all)
	f := compile(t, expression)
	tc, xdp := load(t, f, cube.TC), load(t, f, cube.XDP)
	for i, frame := range all {
		if got := f.Match(frame, len(frame)); got != want[i] {
			t.Errorf("%x: Match is %t, tcpdump says %t", frame, got, want[i])
		}
		if len(frame) >= 14 {
			if got := passes(t, xdp, "run", frame); got != want[i] {
				t.Errorf("XDP, %x: %t, tcpdump says %t", frame, got, want[i])
			}
		}
		if len(frame) < shortest {
			continue
		}
		if got := passes(t, tc, "run", frame); got != want[i] {
			t.Errorf("TC, %x: %t, tcpdump says %t", frame, got, want[i])
		}
		wire := pkt.Tagged(frame, 0x8100<<16|10)
		if got, want := passes(t, tc, "run_tagged", frame), f.Match(wire, len(wire)); got != want {
			t.Errorf("%x with a tag in the skb: %t, want %t", frame, got, want)
		}
	}
}

func TestBytesOfFurtherBuffersAreRead(t *testing.T) {
	frame := pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(5000).Bytes()
	frame[4899], frame[4900] = 0, 7
	for expression, want := range map[string]bool{
		"ether[4900] = 7": true, "ether[4900] = 8": false, "udp port 53 and ether[4899:2] = 7": true, "len = 5042": true, "len > 5042": false,
	} {
		if got := passes(t, load(t, compile(t, expression), cube.XDP), "run", frame); got != want {
			t.Errorf("%s: %t, want %t", expression, got, want)
		}
	}
}

func TestWithoutAFilterEveryPacketPasses(t *testing.T) {
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		if c := load(t, nil, hook); !passes(t, c, "run", frames()["arp"]) {
			t.Errorf("%s: the packet was rejected", hook)
		}
	}
}

func TestObjectsWithoutThePlaceAreRefused(t *testing.T) {
	f := compile(t, "ip")
	for name, try := range map[string]func() ([]byte, error){
		"no object": func() ([]byte, error) { return f.Object([]byte("ELF"), cube.TC, nil) },
		"no such program": func() ([]byte, error) {
			return f.Object(objectTC, cube.TC, map[string]Action{"none": {Function: "matched"}})
		},
		"no such function": func() ([]byte, error) {
			return f.Object(objectTC, cube.TC, map[string]Action{"filtered": {Function: "none"}})
		},
		"not alone in its section": func() ([]byte, error) {
			return f.Object(objectTC, cube.TC, map[string]Action{"run": {Function: "matched"}})
		},
	} {
		if _, err := try(); !errors.Is(err, ErrObject) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
