// SPDX-License-Identifier: Apache-2.0

// Traffic with given frames, sent in rotation.

package lab

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
)

// MaxFrames is the maximum number of frames in rotation.
const MaxFrames = 1024

// Addresses of the frames of a wire with frames: those to be forwarded go from LeftMAC to RightMAC, the others to
// NobodyMAC, by which the sink knows that they should not arrive.
const (
	LeftMAC   = "02:b0:01:00:00:01"
	RightMAC  = "02:b0:02:00:00:01"
	NobodyMAC = "02:b0:02:00:00:02"
)

// NewFrameWire creates the two hosts, with a generator for frames at the left one. They have no addresses.
func (r *Rig) NewFrameWire() (*Wire, error) {
	w, err := r.hosts("", "")
	if err != nil {
		return nil, err
	}
	w.frame = Template(FrameSize)
	spec, err := bpf.Spec("frames", cube.XDP)
	if err != nil {
		return nil, err
	}
	err = w.Left.Do(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err == nil {
			err = spec.Variables["gen_ifindex"].Set(uint32(dev.Index))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	if w.objects, err = ebpf.NewCollection(spec); err != nil {
		return nil, fmt.Errorf("generator and sink: %w", err)
	}
	r.Cleanup(w.objects.Close)
	return w, nil
}

// Frames sets the frames to send from now on, of FrameSize bytes; shorter ones are padded.
func (w *Wire) Frames(frames [][]byte) error {
	if len(frames) == 0 || len(frames) > MaxFrames {
		return fmt.Errorf("%d frames, want 1 to %d: %w", len(frames), MaxFrames, cube.ErrInvalid)
	}
	for i, f := range frames {
		var value [FrameSize + 4]byte // a multiple of eight
		if copy(value[:FrameSize], f) < len(f) {
			return fmt.Errorf("a frame of %d bytes, want %d at most: %w", len(f), FrameSize, cube.ErrInvalid)
		}
		if err := w.objects.Maps["frames"].Put(uint32(i), value); err != nil {
			return fmt.Errorf("generator: frame %d: %w", i, err)
		}
	}
	if err := w.objects.Variables["gen_frames"].Set(uint32(len(frames))); err != nil {
		return fmt.Errorf("generator: %w", err)
	}
	return nil
}

// DiscardFrames is Discard for a wire with frames: none of them is wrong there.
func (r *Rig) DiscardFrames(w *Wire) error {
	err := w.Machine.Do(func() error { return r.attachXDP(In, w.objects.Programs["discard"]) })
	if err != nil {
		return fmt.Errorf("discarding: %w", err)
	}
	return nil
}

var errArrived = errors.New("frames arrive that should be dropped")

// MeasureDropped is Measure for frames of which none may arrive: the cost of each frame sent.
func (w *Wire) MeasureDropped(packets, cpu int) (float64, error) {
	before, err := w.Counts()
	if err != nil {
		return 0, err
	}
	spent, err := CPUTime(cpu, func() error { return w.Send(packets) })
	if err != nil {
		return 0, err
	}
	after, err := w.Counts()
	if err != nil {
		return 0, err
	}
	if n := after.Received + after.Wrong - before.Received - before.Wrong; n > 0 {
		return 0, fmt.Errorf("%d of %d: %w", n, after.Sent-before.Sent, errArrived)
	}
	return float64(spent) / float64(after.Sent-before.Sent), nil
}
