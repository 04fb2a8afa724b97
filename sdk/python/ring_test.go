// SPDX-License-Identifier: Apache-2.0

package python

// Rings that programs write, read by Python.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// reads is a Python program that reads the ring in its descriptors 3 and 4 until it has read as many packets as its
// argument says, and prints them.
const reads = `
import sys
from polycube.ring import Ring
with Ring("copies", 3, 4, 1 << 20) as ring:
    print("ready", flush=True)
    left = int(sys.argv[1])
    for batch in ring:
        for p in batch:
            print(p.kind, p.length, p.data.hex(), p.in_port, p.out_port, p.netdev, p.flow_hash, p.metadata, p.gso_size,
                  p.gso_segs, str(p.xdp).lower(), p.time > 0)
        left -= len(batch)
        if left <= 0:
            break
    print("damaged", ring.damaged)
`

// line is what the program prints for a packet.
func line(p *ring.Packet) string {
	m := p.Metadata
	return fmt.Sprintf("%d %d %x %d %d %d %d (%d, %d, %d, %d) %d %d %v %s", p.Kind, p.Length, p.Data, p.InPort, p.OutPort, p.Netdev,
		p.FlowHash, m[0], m[1], m[2], m[3], p.Offload.GSOSize, p.Offload.GSOSegs, p.XDP, "True")
}

// object is the programs that the tests of package ring use.
func object(t testing.TB, hook string) []byte {
	t.Helper()
	elf, err := os.ReadFile(filepath.Join("..", "..", "ring", "testdata", "ring."+hook+".o"))
	if err != nil {
		t.Fatalf("%v (run make generate)", err)
	}
	return elf
}

// start runs a Python program with the descriptors of a ring, and returns what it prints after its first line.
func start(t testing.TB, c *ebpf.Collection, program string, args ...string) io.Reader {
	t.Helper()
	cmd := exec.Command(interpreter(t), append([]string{"-I", "-c", program}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"copies", "copies" + ring.ReaderSuffix} {
		m, err := c.Maps[name].Clone()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(m.FD()), name))
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(pace.Stretch(time.Minute), func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		stop.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, &errs)
		}
	})
	out := bufio.NewReader(pipe)
	if text, err := out.ReadString('\n'); err != nil || text != "ready\n" {
		t.Errorf("it began with %q, %v", text, err)
	}
	return out
}

// frame makes a frame of n bytes that are all different from their neighbours.
func frame(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	copy(b[12:], []byte{0x88, 0xb5})
	return b
}

// programs are loaded programs and their maps.
type programs struct {
	t testing.TB
	*ebpf.Collection
}

// Map implements ring.Maps.
func (p programs) Map(name string) (*ebpf.Map, error) { return p.Maps[name], nil }

// write copies frames of several kinds to the ring, n of each.
func (p programs) write(n int) {
	p.t.Helper()
	for i := range n {
		for _, f := range [][]byte{frame(60), frame(500), pkt.Tagged(frame(60), 0x81002064), frame(1000 + i)} {
			if err := p.Maps["snap"].Put(uint32(0), uint32(64+i)); err != nil {
				p.t.Fatal(err)
			}
			if _, err := p.Programs["copy"].Run(&ebpf.RunOptions{Data: f, Repeat: 1}); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

func TestPythonReadsWhatGoReads(t *testing.T) {
	p := programs{t, bpftest.Load(t, object(t, "tc"))}
	r, err := ring.Open(p, "copies")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	written, each := uint64(0), uint64(0)
	for written%r.Size()+each/2 < r.Size() { // Python reads across the end of the ring
		want = nil
		p.write(100)
		each = r.Used()
		written += each
		r.Read(func(p *ring.Packet) { want = append(want, line(p)) })
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	out := start(t, p.Collection, reads, strconv.Itoa(len(want)))
	p.write(100)
	text, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(text)), "\n")
	want = append(want, "damaged 0")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("packet %d: Python reads\n%s\nand Go\n%s", i, got[i], want[i])
		}
	}
}

// takes is a Python program that counts packets until another reader takes over.
const takes = `
from polycube.ring import Ring
with Ring("copies", 3, 4, 1 << 20) as ring:
    print("ready", flush=True)
    print(sum(len(batch) for batch in ring), ring.taken)
`

func TestPythonStopsWhenAnotherReaderTakesOver(t *testing.T) {
	p := programs{t, bpftest.Load(t, object(t, "xdp"))}
	out := start(t, p.Collection, takes)
	p.write(5)
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error {
		var page struct {
			Sleeping, _ uint32
			Owner       uint64
		}
		if err := p.Maps["copies_reader"].Lookup(uint32(0), &page); err != nil || page.Sleeping == 0 {
			return fmt.Errorf("it does not sleep: %w", err)
		}
		return nil
	})
	r, err := ring.Open(p, "copies")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(out); err != nil || string(text) != "20 True\n" {
		t.Errorf("it printed %q, %v", text, err)
	}
}

// counts is a Python program that counts packets, up to one of 77 bytes.
const counts = `
from polycube.ring import Ring
with Ring("copies", 3, 4, 1 << 20) as ring:
    print("ready", flush=True)
    count = 0
    for batch in ring:
        count += len(batch)
        if batch[-1].length == 77:
            break
    print(count)
`

// BenchmarkPython reads 128 bytes of each packet while a program writes on another core.
func BenchmarkPython(b *testing.B) {
	p := programs{b, bpftest.Load(b, object(b, "tc"))}
	out := start(b, p.Collection, counts)
	run := func(f []byte, n int) {
		if _, err := p.Programs["copy_head"].Run(&ebpf.RunOptions{Data: f, Repeat: uint32(n)}); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for done := 0; done < b.N; done += 10_000 {
		run(frame(1000), min(b.N-done, 10_000))
	}
	b.StopTimer()
	spent := b.Elapsed()
	ended := make(chan error, 1)
	var read int
	go func() {
		_, err := fmt.Fscan(out, &read)
		ended <- err
	}()
	netns.Eventually(b, pace.Stretch(15*time.Second), func() error {
		run(frame(77), 1)
		select {
		case err := <-ended:
			return err
		default:
			return errors.New("it still reads")
		}
	})
	b.ReportMetric(float64(read)/spent.Seconds()/1e6, "Mpps")
}
