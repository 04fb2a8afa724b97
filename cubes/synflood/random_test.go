// SPDX-License-Identifier: Apache-2.0

package synflood_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polycube/polycube/test/repeat"
)

// random sends frames that are damaged, and have random options, and compares each answer with the packet.
func random(t *testing.T, m *machine, frames int) {
	t.Helper()
	seed := repeat.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	answers := 0
	for range frames {
		s := fromClient(rnd.IntN(2) == 0, syn, randomOptions(rnd)...)
		s.sport, s.seq = uint16(rnd.Uint32()), rnd.Uint32()
		frame := m.frame(s)
		if rnd.IntN(2) == 0 {
			frame[rnd.IntN(len(frame))] ^= 1 << rnd.IntN(8)
		}
		if rnd.IntN(8) == 0 {
			frame = frame[:max(14, rnd.IntN(len(frame)))]
		}
		out, got, err := m.TryBytes("veth1", frame)
		if err != nil {
			continue // the kernel does not run frames without a whole IP header
		}
		is, want := m.synOf(frame)
		switch {
		case want && fate(out) == sentBack:
			answers++
			m.host = slices.Clone(frame[6:12])
			m.checkAnswer(is, got, byDefault)
		case want:
			t.Errorf("%x: %+v, want an answer", frame, out)
		case !bytes.Equal(got, frame) || out.Verdict == "send":
			t.Errorf("%x became %x: %+v, want no answer", frame, got, out)
		}
	}
	if answers < frames/4 {
		t.Errorf("only %d of %d frames were answered", answers, frames)
	}
}

// randomOptions are up to 40 bytes that mostly look like options.
func randomOptions(rnd *rand.Rand) []byte {
	var out []byte
	for range rnd.IntN(8) {
		next := [][]byte{optMSS, optSACK, optTime, optScale9, {0}, {1}, {3, 3, byte(rnd.Uint32())}, {byte(rnd.Uint32()), byte(rnd.IntN(12)), 1, 2}}[rnd.IntN(8)]
		if len(out)+len(next) > 40 {
			break
		}
		out = append(out, next...)
	}
	return out
}
