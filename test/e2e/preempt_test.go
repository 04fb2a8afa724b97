// SPDX-License-Identifier: Apache-2.0

// Between two programs, the metadata of a packet is in a per-CPU slot (ADR 16). Here one CPU gets packets from every
// context, all of which turn or cross segments, while programs are swapped: no packet may end with the metadata of
// another.

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// flow is numbered frames from one socket that must all reach another, and no other one.
type flow struct {
	name     string
	id       byte
	cpu      int // that the sender is bound to
	from, to *netns.Raw
	count    int
	window   int // frames in flight
	got      atomic.Int64
}

// run sends the frames and receives them; it returns what went wrong.
func (f *flow) run() error {
	received := make(chan error, 1)
	go func() { received <- f.receive() }()
	if err := netns.OnCPU(f.cpu, func() error { return f.send(received) }); err != nil {
		return err
	}
	return <-received
}

// send sends the frames, and stops when the receiver does.
func (f *flow) send(received chan error) error {
	frame := pkt.EthernetFrame([]byte{2, 0, 0, 0, 9, f.id}, []byte{2, 0, 0, 0, 8, f.id}, streamType, make([]byte, 60))
	frame[14] = f.id
	for i := range f.count {
		for int64(i) >= f.got.Load()+int64(f.window) {
			select {
			case err := <-received:
				received <- err
				return nil
			default:
				runtime.Gosched()
			}
		}
		binary.BigEndian.PutUint32(frame[15:], uint32(i))
		if err := f.from.Send(frame); err != nil {
			return errors.Join(fmt.Errorf("%s: frame %d: %w", f.name, i, err), <-received)
		}
	}
	return nil
}

// receive expects each frame once, in order if the path has no detour.
func (f *flow) receive() error {
	seen := make([]bool, f.count)
	for range f.count {
		frame, err := f.to.Recv(func(b []byte) bool { return isStream(b) && b[14] != 0 }, patience) // 0 is a late one of reachesHost
		if err != nil {
			return fmt.Errorf("%s: after %d of %d frames: %w", f.name, f.got.Load(), f.count, err)
		}
		n := int(binary.BigEndian.Uint32(frame[15:]))
		if frame[14] != f.id || n >= f.count || seen[n] {
			return fmt.Errorf("%s: frame %d of flow %d came, for the second time or to the wrong host", f.name, n, frame[14])
		}
		seen[n] = true
		f.got.Add(1)
	}
	return nil
}

func TestSlotsOfAProcessorHoldUnderPreemption(t *testing.T) {
	t.Parallel()
	count := 3000
	if soak {
		count *= 100
	}
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newMachine(t).Start("--segment-cubes", "1")
			hosts := map[string]*netns.Node{}
			for i := range 5 {
				name := fmt.Sprintf("veth%d", i+1)
				hosts[name] = d.lab.Host(name, "", netns.WithGRO())
			}
			d.slotTopology(kind)
			// Frames from veth2 are passed to CPU 0 by an interrupt, whatever runs there.
			d.steer("veth2", 0)
			at := func(name string) *netns.Raw { return netns.OpenRaw(t, hosts[name], netns.Inner) }
			flows := []*flow{
				{name: "in by the sender's own processor", cpu: 0, from: at("veth1"), to: at("veth2"), window: 64},
				{name: "in by an interrupt", cpu: runtime.NumCPU() - 1, from: at("veth2"), to: at("veth1"), window: 64},
				{name: "out from the stack", cpu: 0, from: netns.OpenRaw(t, d.lab, "veth3"), to: at("veth3"), window: 64},
				{name: "down from user space", cpu: 0, from: at("veth4"), to: at("veth5"), window: 16},
			}
			reachesHost(t, flows)
			var senders sync.WaitGroup
			for i, f := range flows {
				f.id, f.count = byte(i+1), count
				if f.window == 16 {
					f.count /= 4
				}
				senders.Go(func() {
					if err := f.run(); err != nil {
						t.Error(err)
					}
				})
			}
			ended := make(chan struct{})
			go func() { senders.Wait(); close(ended) }()
			changes := d.swapUntil(ended)
			if t.Failed() {
				d.logDrops("f1", "f2", "f3", "f4", "t1", "t2", "t3")
			}
			t.Logf("%d changes while %d frames went each way", changes, count)
		})
	}
}

// slotTopology is two forwarders in each direction, two cubes on the egress of veth3, and a detour through user space
// from veth4 to veth5. With one cube in a segment, every crossing uses a slot.
func (m *machine) slotTopology(kind string) {
	m.t.Helper()
	both := `"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]`
	m.Must(http.StatusCreated, "POST", "/cubes", fmt.Sprintf(`[
		{"service-name":"simpleforwarder","name":"f1","type":%[1]q,"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"f2:p1"}],%[2]s},
		{"service-name":"simpleforwarder","name":"f2","type":%[1]q,"ports":[{"name":"p1","peer":"f1:p2"},{"name":"p2","peer":"veth2"}],%[2]s},
		{"service-name":"simpleforwarder","name":"f3","type":%[1]q,"ports":[{"name":"p1","peer":"veth4","tcubes":["t3"]},{"name":"p2","peer":"f4:p1"}],%[2]s},
		{"service-name":"simpleforwarder","name":"f4","type":%[1]q,"ports":[{"name":"p1","peer":"f3:p2"},{"name":"p2","peer":"veth5"}],%[2]s},
		{"service-name":"transparenthelloworld","name":"t1","type":%[1]q},
		{"service-name":"transparenthelloworld","name":"t2","type":%[1]q},
		{"service-name":"transparenthelloworld","name":"t3","type":%[1]q,"ingress-action":"SLOWPATH"}]`, kind, both))
	for _, name := range []string{"t1", "t2"} {
		m.Must(http.StatusOK, "POST", "/attach", fmt.Sprintf(`{"cube":%q,"port":"veth3","position":"last"}`, name))
	}
}

// steer makes a CPU process the frames that a device receives (receive packet steering). The setting is in the sysfs of
// the device's namespace.
func (m *machine) steer(dev string, cpu int) {
	m.t.Helper()
	m.lab.Run("unshare", "--mount", "sh", "-c", fmt.Sprintf(
		"mount -t sysfs none /sys && for q in /sys/class/net/%s/queues/rx-*/rps_cpus; do echo %x > $q || exit; done", dev, 1<<cpu))
}

// reachesHost waits until a first frame passes in each direction.
func reachesHost(t testing.TB, flows []*flow) {
	t.Helper()
	for _, f := range flows {
		first := pkt.EthernetFrame([]byte{2, 0, 0, 0, 9, 0}, []byte{2, 0, 0, 0, 8, 0}, streamType, make([]byte, 60))
		netns.Eventually(t, patience, func() error {
			if err := f.from.Send(first); err != nil {
				return err
			}
			_, err := f.to.Recv(isStream, 50*time.Millisecond)
			return err
		})
	}
}

// swapUntil swaps programs and updates maps until the channel is closed, and counts how often.
func (m *machine) swapUntil(ended chan struct{}) (changes int) {
	m.t.Helper()
	requests := []struct{ method, path, body string }{
		{"PATCH", "/simpleforwarder/f%d/loglevel", `"DEBUG"`},
		{"PUT", "/simpleforwarder/f%d/actions/p1", `{"action":"FORWARD","outport":"p2"}`},
		{"PATCH", "/simpleforwarder/f%d/loglevel", `"INFO"`},
		{"PATCH", "/transparenthelloworld/t%d/loglevel", `"TRACE"`},
		{"PATCH", "/transparenthelloworld/t%d/loglevel", `"INFO"`},
	}
	for {
		select {
		case <-ended:
			return changes
		default:
		}
		r := requests[changes%len(requests)]
		path := fmt.Sprintf(r.path, 1+changes/len(requests)%3)
		if status, text, err := m.Request(r.method, path, r.body); err != nil || status >= 300 {
			m.t.Errorf("%s %s: status %d, %v: %s", r.method, path, status, err, text)
			<-ended
			return changes
		}
		changes++
	}
}
