// SPDX-License-Identifier: Apache-2.0

package cubeapi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// notice is a message as received.
type notice struct {
	kind uint32
	data string
}

// notices keeps those of a cube.
type notices struct {
	mu   sync.Mutex
	list []notice
}

func (n *notices) listen(c *twelve) {
	c.set(func() {
		c.notified = func(kind uint32, data []byte) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.list = append(n.list, notice{kind, string(data)})
		}
	})
}

func (n *notices) all() []notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list
}

func TestAProgramTellsItsControlPlane(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		var got notices
		got.listen(b.twelve)
		b.Set("PATCH", "tw what", `"NOTIFY"`)
		for range 3 {
			b.goes("the packet goes on", whole)
		}
		// struct seen of twelve.bpf.c: 8 + 4 + 2 + 10 bytes.
		e := binary.NativeEndian
		want := e.AppendUint16(e.AppendUint32(e.AppendUint64(nil, 1), 60), 0)
		want = append(want, "from below"...)
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := len(got.all()); n != 3 {
				return fmt.Errorf("%d messages, want 3", n)
			}
			return nil
		})
		for _, n := range got.all() {
			if n.kind != 4711 || n.data != string(want) {
				t.Errorf("message %d %x, want 4711 %x", n.kind, n.data, want)
			}
		}
	})
}

// While the cube does not read, messages fill its share of the ring, and the rest are counted.
func TestMessagesWithoutRoomAreCounted(t *testing.T) {
	b := newBench(t, bpftest.Options{})
	var got notices
	got.listen(b.twelve)
	b.Set("PATCH", "tw what", `"NOTIFY"`)
	const burst = 100_000
	b.Flood("veth1", frame(0), burst)
	netns.Eventually(t, bpftest.Patience, func() error {
		shed, queued := b.Fates("tw")["notify-shed"], b.Shed("tw")
		if n := uint64(len(got.all())) + shed + queued; n != burst {
			return fmt.Errorf("%d handled, %d shed before the ring, %d behind it: %d in all, want %d", len(got.all()), shed, queued, n, burst)
		}
		if shed+queued == 0 {
			return errors.New("nothing was shed")
		}
		return nil
	})
}

// Programs change from a handler of a packet, of a message, and of a timer.
func TestHandlersChangePrograms(t *testing.T) {
	b := newBench(t, bpftest.Options{})
	done := make(chan error, 1)
	step := func(what, want string, begin func()) {
		t.Helper()
		begin()
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		case <-time.After(bpftest.Patience):
			t.Fatalf("%s: its handler does not end", what)
		}
		b.set(func() { b.packetIn, b.notified = nil, nil })
		b.Set("PATCH", "tw what", `"FORWARD"`)
		b.goes("after "+what, want)
	}
	reload := func(i int, function string) {
		done <- b.env.Programs().Reload(in(i), cube.Program{Function: function})
	}
	step("a packet", "abcd4fghABCD", func() {
		b.set(func() { b.packetIn = func(*cube.PacketIn) { reload(4, "other4") } })
		b.Set("PATCH", "tw what", `"SLOWPATH"`)
		b.Flood("veth1", frame(0), 1)
	})
	step("a message", "abcd45ghABCD", func() {
		b.set(func() { b.notified = func(uint32, []byte) { reload(5, "other5") } })
		b.Set("PATCH", "tw what", `"NOTIFY"`)
		b.Flood("veth1", frame(0), 1)
	})
	step("a timer", "abcd456hABCD", func() {
		b.env.After(time.Millisecond, func() { reload(6, "other6") })
	})
}
