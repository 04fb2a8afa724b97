// SPDX-License-Identifier: Apache-2.0

package powercut

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/test/pace"
)

const blocks = 8

// remote is the disk as a client sees it.
type remote struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	next uint64
}

func connect(t *testing.T, d *Disk) *remote {
	t.Helper()
	here, there := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- d.Serve(there) }()
	t.Cleanup(func() {
		here.Close()
		if err := <-served; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
	if err := here.SetDeadline(time.Now().Add(pace.Stretch(time.Minute))); err != nil {
		t.Fatal(err)
	}
	c := &remote{t: t, conn: here, in: bufio.NewReader(here)}
	var magic [2]uint64
	var flags uint16
	c.get(&magic, &flags)
	if magic != [2]uint64{magicServer, magicOption} || flags != fixedNewstyle|noZeroes {
		t.Fatalf("greeted with %x, %x", magic, flags)
	}
	c.put(uint32(fixedNewstyle | noZeroes))
	const structured = 8
	c.put(uint64(magicOption), uint32(structured), uint32(0))
	if kind, _ := c.answer(structured); kind != repUnsupported {
		t.Fatalf("an option that is not known: %#x", kind)
	}
	c.put(uint64(magicOption), uint32(optGo), uint32(6), uint32(0), uint16(0))
	kind, info := c.answer(optGo)
	if want := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64([]byte{0, infoExport}, blocks*BlockSize), hasFlags|canFlush|canForce); kind != repInfo || !bytes.Equal(info, want) {
		t.Fatalf("the export: %d, %x; want %x", kind, info, want)
	}
	if kind, info := c.answer(optGo); kind != repInfo || len(info) != 14 || info[1] != infoBlockSize {
		t.Fatalf("the sizes of blocks: %d, %x", kind, info)
	}
	if kind, _ := c.answer(optGo); kind != repAck {
		t.Fatalf("the end of the greeting: %d", kind)
	}
	return c
}

func (c *remote) get(fields ...any) {
	c.t.Helper()
	for _, f := range fields {
		if err := binary.Read(c.in, binary.BigEndian, f); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *remote) put(fields ...any) {
	c.t.Helper()
	var b bytes.Buffer
	for _, f := range fields {
		if err := binary.Write(&b, binary.BigEndian, f); err != nil {
			c.t.Fatal(err)
		}
	}
	if _, err := c.conn.Write(b.Bytes()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *remote) answer(option uint32) (kind uint32, data []byte) {
	c.t.Helper()
	var magic uint64
	var of, n uint32
	c.get(&magic, &of, &kind, &n)
	if magic != magicAnswer || of != option {
		c.t.Fatalf("%#x answers option %d, not %d", magic, of, option)
	}
	data = make([]byte, n)
	c.get(data)
	return kind, data
}

func (c *remote) send(command, flags uint16, at, n int, data []byte) {
	c.t.Helper()
	c.next++
	c.put(uint32(magicRequest), flags, command, c.next, uint64(at), uint32(n), data)
}

// do carries out one request and returns its status and, of a read, the data.
func (c *remote) do(command, flags uint16, at, n int, data []byte) (status uint32, read []byte) {
	c.t.Helper()
	c.send(command, flags, at, n, data)
	var magic uint32
	var handle uint64
	c.get(&magic, &status, &handle)
	if magic != magicReply || handle != c.next {
		c.t.Fatalf("%#x answers request %d, not %d", magic, handle, c.next)
	}
	if command == cmdRead && status == 0 {
		read = make([]byte, n)
		c.get(read)
	}
	return status, read
}

func (c *remote) want(command, flags uint16, at, n int, data []byte) {
	c.t.Helper()
	if status, _ := c.do(command, flags, at, n, data); status != 0 {
		c.t.Fatalf("command %d at %d: status %d", command, at, status)
	}
}

// write fills one block with a letter.
func (c *remote) write(block int, letter byte, flags uint16) {
	c.t.Helper()
	c.want(cmdWrite, flags, block*BlockSize, BlockSize, bytes.Repeat([]byte{letter}, BlockSize))
}

func (c *remote) flush() { c.t.Helper(); c.want(cmdFlush, 0, 0, 0, nil) }

// letters returns the fill byte of each block; ? for a torn one.
func (c *remote) letters() string {
	c.t.Helper()
	status, data := c.do(cmdRead, 0, 0, blocks*BlockSize, nil)
	if status != 0 {
		c.t.Fatalf("read: status %d", status)
	}
	var out strings.Builder
	for block := range slices.Chunk(data, BlockSize) {
		letter := block[0]
		if bytes.Count(block, []byte{letter}) != BlockSize {
			letter = '?'
		}
		out.WriteByte(letter)
	}
	return out.String()
}

func newDisk(t *testing.T) *Disk {
	t.Helper()
	d, err := NewDisk(bytes.Repeat([]byte{'.'}, blocks*BlockSize))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestWhatIsFlushedOutlivesACutAndTheRestMayNot(t *testing.T) {
	d := newDisk(t)
	c := connect(t, d)
	c.write(0, 'a', 0)
	c.write(1, 'b', 0)
	c.flush()
	c.write(1, 'c', 0)
	c.write(2, 'd', forceUnitAccess)
	c.write(3, 'e', 0)
	if got := c.letters(); got != "acde...." {
		t.Fatalf("before the cut: %s", got)
	}
	if kept, lost := d.Cut(random(), 0); kept != 0 || lost != 2 {
		t.Errorf("%d blocks kept, %d lost", kept, lost)
	}
	if got := c.letters(); got != "abd....." {
		t.Errorf("after a cut that loses all: %s", got)
	}
	c.write(3, 'f', 0)
	c.write(3, 'g', 0)
	if d.Cut(random(), 1); c.letters() != "abdg...." {
		t.Errorf("after a cut that keeps all: %s", c.letters())
	}
}

// TestWhatWasForcedIsNotUndone: an older, unflushed write to the same block must not reappear.
func TestWhatWasForcedIsNotUndone(t *testing.T) {
	d := newDisk(t)
	c := connect(t, d)
	c.want(cmdWrite, 0, 0, 3*BlockSize, bytes.Repeat([]byte{'a'}, 3*BlockSize))
	c.write(1, 'b', forceUnitAccess)
	if d.Cut(random(), 1); c.letters() != "aba....." {
		t.Errorf("%s", c.letters())
	}
}

// TestPartsOfAWriteAreLost: each block by itself, none in halves.
func TestPartsOfAWriteAreLost(t *testing.T) {
	seen := map[string]bool{}
	r := random()
	for range 50 {
		d := newDisk(t)
		c := connect(t, d)
		c.want(cmdWrite, 0, BlockSize, 2*BlockSize, bytes.Repeat([]byte{'a'}, 2*BlockSize))
		d.Cut(r, 0.5)
		seen[c.letters()] = true
	}
	for _, want := range []string{"........", ".a......", "..a.....", ".aa....."} {
		if !seen[want] {
			t.Errorf("never %s", want)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("also %v", seen)
	}
}

func TestAfterItsPowerWentADiskAnswersNothing(t *testing.T) {
	d := newDisk(t)
	off := d.CutAfter(3)
	c := connect(t, d)
	c.write(0, 'a', 0)
	c.flush()
	c.write(1, 'b', 0)
	select {
	case <-off:
		t.Fatal("off after three requests, before the fourth")
	default:
	}
	c.send(cmdWrite, 0, 2*BlockSize, BlockSize, bytes.Repeat([]byte{'c'}, BlockSize))
	<-off
	c.conn.Close()
	// The write in progress may be there, or not.
	if kept, lost := d.Cut(random(), 1); kept != 2 || lost != 0 {
		t.Errorf("%d kept, %d lost", kept, lost)
	}
	if got := connect(t, d).letters(); got != "abc....." {
		t.Errorf("%s", got)
	}
}

func TestADiskThatLiesLosesWhatItFlushed(t *testing.T) {
	d := newDisk(t)
	d.Lies = true
	c := connect(t, d)
	c.write(0, 'a', forceUnitAccess)
	c.flush()
	if d.Cut(random(), 0); c.letters() != "........" {
		t.Errorf("%s", c.letters())
	}
}

func TestRequestsOutsideOfTheDiskAreRefused(t *testing.T) {
	c := connect(t, newDisk(t))
	const trim = 4
	for name, status := range map[string]uint32{
		"a read":  first(c.do(cmdRead, 0, blocks*BlockSize, BlockSize, nil)),
		"a write": first(c.do(cmdWrite, 0, (blocks-1)*BlockSize, 2*BlockSize, make([]byte, 2*BlockSize))),
		"a trim":  first(c.do(trim, 0, 0, BlockSize, nil)),
		"at -1":   first(c.do(cmdRead, 0, -1, BlockSize, nil)),
	} {
		if status != errnoInvalid {
			t.Errorf("%s: status %d", name, status)
		}
	}
	if got := c.letters(); got != "........" {
		t.Errorf("%s", got)
	}
}

func first(status uint32, _ []byte) uint32 { return status }

// TestTheLedgerFindsWhatIsLostOrHalf commits to a store as a machine does.
func TestTheLedgerFindsWhatIsLostOrHalf(t *testing.T) {
	s, _, err := store.Open(store.Options{Dir: t.TempDir() + "/state"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if last, err := Read(s.Records()); err != nil || last != [Writers]uint64{} {
		t.Fatalf("an empty store: %v, %v", last, err)
	}
	var l Ledger
	for n := range uint64(9) {
		for w := range Writers {
			if err := s.Commit(Transaction(w, n+1)); err != nil {
				t.Fatal(err)
			}
			if last, err := Read(s.Records()); err != nil || last[w] != n+1 {
				t.Fatalf("writer %d, transaction %d: %v, %v", w, n+1, last, err)
			}
			if err := l.Acked(w, n+1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Acked(1, 11); err == nil {
		t.Error("an acknowledgement is missing, and nobody noticed")
	}
	for _, c := range []struct {
		acked, found [Writers]uint64
		good         bool
	}{
		{[Writers]uint64{9, 9, 9, 9}, [Writers]uint64{9, 9, 9, 9}, true},
		{[Writers]uint64{9, 9, 9, 9}, [Writers]uint64{9, 10, 9, 10}, true}, // were in progress
		{[Writers]uint64{9, 10, 9, 10}, [Writers]uint64{9, 10, 9, 9}, false},
		{[Writers]uint64{9, 9, 9, 9}, [Writers]uint64{11, 9, 9, 9}, false},
	} {
		l := Ledger{acked: c.acked}
		if err := l.Opened(c.found); (err == nil) != c.good || l.acked != c.found {
			t.Errorf("%v acknowledged, %v found: %v", c.acked, c.found, err)
		}
	}
	half := Transaction(2, 10)
	for i := range half {
		if err := s.Commit(half[i : i+1]); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(s.Records()); (err == nil) != (i == len(half)-1) {
			t.Errorf("with %d of its %d records: %v", i+1, len(half), err)
		}
	}
}
