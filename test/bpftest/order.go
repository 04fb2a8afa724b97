// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// Edit creates an entry of a list.
type Edit struct{ Words, Body string }

// CreateShuffled creates services and the servers of each in a random order, with detours: some servers come, go and come
// again, or have another weight first.
func (l *Lab) CreateShuffled(r *rand.Rand, services []Edit, servers [][]Edit) {
	l.t.Helper()
	var ready []Edit // servers whose service is there
	left := r.Perm(len(services))
	for len(left)+len(ready) > 0 {
		if len(left) > 0 && (len(ready) == 0 || r.IntN(8) == 0) {
			l.Set("POST", services[left[0]].Words, services[left[0]].Body)
			ready = append(ready, servers[left[0]]...)
			left = left[1:]
			continue
		}
		i := r.IntN(len(ready))
		e := ready[i]
		ready = slices.Delete(ready, i, i+1)
		switch r.IntN(4) {
		case 0:
			l.Set("POST", e.Words, `{"weight":9}`)
			l.Set("DELETE", e.Words, "")
			ready = append(ready, e)
		case 1:
			l.Set("POST", e.Words, `{"weight":7}`)
			l.Set("PATCH", e.Words, e.Body)
		default:
			l.Set("POST", e.Words, e.Body)
		}
	}
}

// SameAnswers runs frames on two machines, on the second in another order, and fails if one leaves a machine differently, or
// not at all. It returns what the frames became.
func SameAnswers(t *testing.T, r *rand.Rand, device string, machines [2]*Lab, frames [][]byte) [][]byte {
	t.Helper()
	order := r.Perm(len(frames))
	shuffled := make([][]byte, len(frames))
	for i, n := range order {
		shuffled[i] = frames[n]
	}
	first, second := machines[0].RunAll(device, frames), machines[1].RunAll(device, shuffled)
	for i, n := range order {
		if first[n] == nil || !bytes.Equal(first[n], second[i]) {
			t.Fatalf("% x left as\n% x, and on the other machine as\n% x", frames[n], first[n], second[i])
		}
	}
	return first
}
