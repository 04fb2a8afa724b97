// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRate: each client has what it may have, whatever the others do, and learns how long
// it has to wait.
func TestRate(t *testing.T) {
	r := NewRate(10, 20)
	at := time.Now()
	for i := range 20 {
		if _, ok := r.Take("a", at); !ok {
			t.Fatalf("request %d of 20 was refused", i+1)
		}
	}
	wait, ok := r.Take("a", at)
	if ok || wait <= 0 || wait > 100*time.Millisecond {
		t.Errorf("request 21: %v, wait %v, want 100 ms", ok, wait)
	}
	if _, ok := r.Take("b", at); !ok {
		t.Error("another client has to wait")
	}
	if _, ok := r.Take("a", at.Add(wait+time.Millisecond)); !ok {
		t.Error("who waited as long as it was told is refused")
	}
	if _, ok := r.Take("a", at.Add(-time.Hour)); ok {
		t.Error("a clock that goes back gives requests")
	}
}

// TestRateOfManyClients: clients that are many take bounded memory; those that come when
// there is no room share what one may have, until others are forgotten.
func TestRateOfManyClients(t *testing.T) {
	r := NewRate(1, 2)
	at := time.Now()
	for i := range 2 * maxClients {
		r.Take(fmt.Sprint(i), at)
	}
	if n := len(r.clients); n > maxClients {
		t.Errorf("%d clients are known, want %d at most", n, maxClients)
	}
	if _, ok := r.Take("late", at); ok {
		t.Error("there is no room, and a client more has a bucket of its own")
	}
	if _, ok := r.Take("later", at.Add(time.Minute)); !ok {
		t.Error("the others are silent for long, and still there is no room")
	}
}

// TestSlots: neither all together nor one client hold more than they may, and what was
// given back can be taken by anybody.
func TestSlots(t *testing.T) {
	s := NewSlots(5, 3)
	step := func(client, says string) {
		t.Helper()
		if err := s.Enter(client); (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want %q", client, err, says)
		}
	}
	for range 3 {
		step("a", "")
	}
	step("a", "3 of a")
	step("b", "")
	step("b", "")
	step("c", "5 in progress")
	s.Leave("a")
	step("c", "")
	s.Leave("b")
	step("a", "")
	step("a", "in progress")
	for _, client := range []string{"a", "a", "a", "b", "c"} {
		s.Leave(client)
	}
	if s.held != 0 || len(s.by) != 0 {
		t.Errorf("all was given back, and %d are held by %v", s.held, s.by)
	}
}
