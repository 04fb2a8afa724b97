// SPDX-License-Identifier: Apache-2.0

package bpftest

// Frames on the wire: from one host's interface to another's, through the hooks as the kernel calls them. This is the
// only way to test generic XDP, VLAN tags that the kernel moved into the packet's metadata, frames in several buffers,
// and copies.

import (
	"bytes"
	"fmt"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// Wire is a host's end of its link, host 1 being the first.
type Wire struct {
	*netns.Raw
	name string
	l    *Lab
}

// Patience is how long a test waits for an expected event.
var Patience = pace.Stretch(15 * time.Second)

// Wires opens the end of every host's link.
func (l *Lab) Wires() []*Wire {
	l.t.Helper()
	var out []*Wire
	for i, h := range l.Hosts {
		out = append(out, &Wire{netns.OpenRaw(l.t, h, netns.Inner), fmt.Sprintf("host %d", i+1), l})
	}
	return out
}

// Gets fails the test unless the frame arrives; others before it are ignored.
func (w *Wire) Gets(frame []byte) {
	w.l.t.Helper()
	// Ethernet pads, and drivers may leave the padding on.
	same := func(got []byte) bool {
		return len(got) >= len(frame) && bytes.Equal(got[:len(frame)], frame) && len(bytes.Trim(got[len(frame):], "\x00")) == 0
	}
	if _, err := w.Recv(same, Patience); err != nil {
		w.l.t.Errorf("%s: the frame of %d bytes, %x..., does not come: %v", w.name, len(frame), frame[:min(len(frame), 32)], err)
	}
}

// Got reports whether the frame is among those that have arrived. Call it after a frame that was sent later has
// arrived.
func (w *Wire) Got(frame []byte) bool {
	w.l.t.Helper()
	_, err := w.Recv(func(got []byte) bool { return bytes.HasPrefix(got, frame) }, 0)
	return err == nil
}

// Puts sends a frame.
func (w *Wire) Puts(frame []byte) {
	w.l.t.Helper()
	if err := w.Send(frame); err != nil {
		w.l.t.Fatalf("%s: %v", w.name, err)
	}
}

// TryWire sends a frame from a host, waits until it is counted, and returns the result like TryBytes: the bytes are
// those that reached a host, nil if the frame was dropped.
func (l *Lab) TryWire(wires []*Wire, from int, frame []byte) (Outcome, []byte, error) {
	l.t.Helper()
	before := l.count()
	if err := wires[from].Send(frame); err != nil {
		return Outcome{}, nil, err
	}
	var out Outcome
	for until := time.Now().Add(Patience); ; {
		if out = l.count().since(before); out.Sent+out.Fate != "" {
			break
		}
		if time.Now().After(until) {
			return out, nil, fmt.Errorf("a frame of %d bytes from %s is counted nowhere", len(frame), wires[from].name)
		}
	}
	out.Verdict = "send"
	if out.Sent == "" {
		out.Verdict = "drop"
	}
	var came [][]byte
	for until := time.Now().Add(Patience); ; {
		for _, w := range wires {
			if got, err := w.Recv(nil, 0); err == nil {
				came = append(came, got)
			}
		}
		if out.Verdict == "drop" || len(came) > 0 || time.Now().After(until) {
			break
		}
	}
	switch {
	case len(came) == 0 && out.Verdict == "drop":
		return out, nil, nil
	case len(came) == 1 && out.Verdict == "send":
		return out, came[0], nil
	}
	return out, nil, fmt.Errorf("a frame from %s: %d frames came, and it was counted as %+v: %w", wires[from].name, len(came), out, errContradiction)
}
