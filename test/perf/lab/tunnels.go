// SPDX-License-Identifier: Apache-2.0

// Longer frames through a machine that forwards between two networks, from either side.

package lab

import (
	"fmt"

	"github.com/polycube/polycube/cube"
)

// LongFrame is the length of long frames in bytes; shorter ones are padded.
const LongFrame = 108

// Long sends frames in rotation, from the left host, or back from the right one.
func (f *Filtered) Long(r *Rig, back bool, frames [][]byte) (*Stream, error) {
	if len(frames) == 0 || len(frames) > FilteredFrames {
		return nil, fmt.Errorf("%d frames, want 1 to %d: %w", len(frames), FilteredFrames, cube.ErrInvalid)
	}
	from, received := f.Left, f.objects.Maps["received"]
	if back {
		from, received = f.Right, f.back.Maps["received"]
	}
	coll, err := r.generator("tunnels", from)
	if err != nil {
		return nil, err
	}
	keys, values := make([]uint32, len(frames)), make([][LongFrame + 4]byte, len(frames))
	for i, frame := range frames {
		keys[i] = uint32(i)
		if copy(values[i][:LongFrame], frame) < len(frame) {
			return nil, fmt.Errorf("a frame of %d bytes, want %d at most: %w", len(frame), LongFrame, cube.ErrInvalid)
		}
	}
	if _, err := coll.Maps["frames"].BatchUpdate(keys, values, nil); err != nil {
		return nil, fmt.Errorf("frames: %w", err)
	}
	if err := coll.Variables["gen_frames"].Set(uint32(len(frames))); err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	return &Stream{program: "generator", objects: coll, received: received, from: from, size: LongFrame}, nil
}
