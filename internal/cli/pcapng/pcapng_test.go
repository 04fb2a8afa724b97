// SPDX-License-Identifier: Apache-2.0

package pcapng_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/polycube/polycube/internal/cli/pcapng"
)

// captureOf is a file of three packets, one of which was dropped, and its end.
func captureOf(t *testing.T) (file []byte, ends []int) {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapgo.NewNgWriterInterface(&b, pcapgo.NgInterface{Name: "br1:p1", LinkType: layers.LinkTypeEthernet}, pcapgo.DefaultNgWriterOptions)
	if err != nil {
		t.Fatal(err)
	}
	mark := func() {
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, b.Len())
	}
	mark()
	for i, fate := range []string{"flood", "drop too-big", "sent"} {
		data := bytes.Repeat([]byte{byte(i)}, 61+i)
		err := w.WritePacketWithOptions(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(data), Length: len(data)}, data,
			pcapgo.NgPacketOptions{Comments: []string{"port br1:p1", "fate " + fate}})
		if err != nil {
			t.Fatal(err)
		}
		mark()
	}
	if err := w.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{LastUpdate: time.Unix(2, 0), PacketsReceived: 3, PacketsDropped: 6}); err != nil {
		t.Fatal(err)
	}
	mark()
	return b.Bytes(), ends
}

// TestACaptureIsCopiedInWholeBlocks, wherever its stream ends.
func TestACaptureIsCopiedInWholeBlocks(t *testing.T) {
	file, ends := captureOf(t)
	for n := range len(file) + 1 {
		var out bytes.Buffer
		seen, err := pcapng.Copy(&out, bytes.NewReader(file[:n]))
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		whole, packets := 0, -1
		for _, end := range ends {
			if end <= n {
				whole, packets = end, packets+1
			}
		}
		// the block of the section ends before the first of the ends
		if got := out.Len(); got != whole && n >= ends[0] || !bytes.HasPrefix(file, out.Bytes()) {
			t.Fatalf("of %d bytes, %d are written, want %d", n, got, whole)
		}
		if want := max(0, min(packets, 3)); seen.Packets != want {
			t.Fatalf("of %d bytes, %d packets are counted, want %d", n, seen.Packets, want)
		}
		if all := n == len(file); seen.Known != all || all && (seen.Lost != 6 || seen.Drops["br1 too-big"] != 1) {
			t.Fatalf("of %d bytes, this is known: %+v", n, seen)
		}
	}
}

// TestACaptureThatIsCutOff is an error, within a block and between two, with the whole blocks written.
func TestACaptureThatIsCutOff(t *testing.T) {
	file, ends := captureOf(t)
	for n, whole := range map[int]int{ends[2]: ends[2], ends[2] + 5: ends[2], ends[2] + 40: ends[2]} {
		var out bytes.Buffer
		_, err := pcapng.Copy(&out, io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(io.ErrUnexpectedEOF)))
		if !errors.Is(err, io.ErrUnexpectedEOF) || out.Len() != whole {
			t.Errorf("after %d bytes: %v, %d bytes are written, want %d", n, err, out.Len(), whole)
		}
	}
}

// TestACaptureThatIsNone is refused after its valid blocks were written.
func TestACaptureThatIsNone(t *testing.T) {
	file, ends := captureOf(t)
	for name, length := range map[string]uint32{"empty": 0, "odd": 33, "huge": 1 << 31} {
		bad := bytes.Clone(file)
		binary.LittleEndian.PutUint32(bad[ends[1]+4:], length)
		var out bytes.Buffer
		_, err := pcapng.Copy(&out, bytes.NewReader(bad))
		if err == nil || !strings.Contains(err.Error(), "cannot parse") || out.Len() != ends[1] {
			t.Errorf("%s: %v, %d bytes are written, want %d", name, err, out.Len(), ends[1])
		}
	}
	big := bytes.Clone(file[:ends[0]])
	for i := 0; i < 12; i += 4 { // the same section, written by a machine of the other order
		binary.BigEndian.PutUint32(big[i:], binary.LittleEndian.Uint32(big[i:]))
	}
	if _, err := pcapng.Copy(io.Discard, bytes.NewReader(big[:binary.BigEndian.Uint32(big[4:])])); err != nil {
		t.Errorf("the other order: %v", err)
	}
}
