// SPDX-License-Identifier: Apache-2.0

package stp

// Priority vectors (17.5, 17.6) and the times that accompany them.

import "cmp"

// vector is a spanning tree priority vector; lower is better.
type vector struct {
	Root   BridgeID
	Cost   uint32
	Bridge BridgeID
	Port   PortID
}

func (v vector) compare(w vector) int {
	return cmp.Or(cmp.Compare(v.Root, w.Root), cmp.Compare(v.Cost, w.Cost),
		cmp.Compare(v.Bridge, w.Bridge), cmp.Compare(v.Port, w.Port))
}

// superior reports whether a message replaces the current information: it is better, or it is new information from the
// same sender (17.6).
func (v vector) superior(w vector) bool {
	return v.compare(w) < 0 || v.Bridge.address() == w.Bridge.address() && v.Port.number() == w.Port.number()
}

// through returns the root path priority vector of a port with the received vector. A cost that overflows is clamped to
// the maximum.
func (v vector) through(cost uint32) vector {
	v.Cost += cost
	if v.Cost < cost {
		v.Cost = 1<<32 - 1
	}
	return v
}

// times are in seconds.
type times struct{ MessageAge, MaxAge, HelloTime, ForwardDelay uint16 }

// Limits of times in received BPDUs. A forged one must not stop a bridge for minutes. The lower limit of the forward
// delay is that of the Linux bridge.
func (t times) clamped() times {
	t.MaxAge = min(max(t.MaxAge, 6), 40)
	t.HelloTime = min(max(t.HelloTime, 1), 10)
	t.ForwardDelay = min(max(t.ForwardDelay, 2), 30)
	return t
}
