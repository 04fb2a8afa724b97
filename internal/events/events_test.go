// SPDX-License-Identifier: Apache-2.0

package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/polycube/polycube/test/pace"
)

// words are events in short: the number, or what is missing.
func words(list []Event) string {
	var out []string
	for _, e := range list {
		if e.Type == Lost {
			out = append(out, fmt.Sprintf("lost %d to %s", e.Count, e.ID))
		} else {
			out = append(out, e.ID)
		}
	}
	return strings.Join(out, ", ")
}

// TestFollow: a reader gets what comes after its place, and learns what it cannot get.
func TestFollow(t *testing.T) {
	tests := []struct {
		name  string
		add   int
		after string
		limit int
		want  string
	}{
		{"from now on there is nothing yet", 3, "", 9, ""},
		{"what came after an event", 3, "run-1", 9, "run-2, run-3"},
		{"at the newest", 3, "run-3", 9, ""},
		{"from the beginning", 3, "run-0", 9, "run-1, run-2, run-3"},
		{"no more than asked for", 4, "run-0", 2, "run-1, run-2"},
		{"the ring is full and nothing is missing", 8, "run-4", 9, "run-5, run-6, run-7, run-8"},
		{"the ring has overtaken the reader", 9, "run-1", 9, "lost 4 to run-5, run-6, run-7, run-8, run-9"},
		{"another run of the daemon", 2, "old-7", 9, "lost 0 to run-0, run-1, run-2"},
		{"another run, and more than the ring has", 6, "old-7", 9, "lost 0 to run-0, lost 2 to run-2, run-3, run-4, run-5, run-6"},
		{"a number that was never given", 2, "run-9", 9, "lost 0 to run-0, run-1, run-2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := New("run", 4)
			for range tt.add {
				l.Add(Event{Type: Daemon})
			}
			r, err := l.Follow(tt.after)
			if err != nil {
				t.Fatal(err)
			}
			got, more := r.Next(tt.limit)
			if words(got) != tt.want {
				t.Errorf("got %q, want %q", words(got), tt.want)
			}
			if left := more == nil; left != (tt.limit < tt.add) {
				t.Errorf("more to come at once: %v", left)
			}
		})
	}
}

// TestBadID: what is no id is refused.
func TestBadID(t *testing.T) {
	for _, id := range []string{"1", "run", "run-x", "run--1", "-"} {
		if _, err := New("run", 4).Follow(id); err == nil {
			t.Errorf("%q was taken for an id", id)
		}
	}
}

// TestWake: a reader that waits is woken by the next event, every reader.
func TestWake(t *testing.T) {
	l := New("run", 4)
	var done sync.WaitGroup
	for range 3 {
		r, err := l.Follow("")
		if err != nil {
			t.Fatal(err)
		}
		_, more := r.Next(9)
		done.Go(func() {
			select {
			case <-more:
			case <-time.After(pace.Stretch(10 * time.Second)):
				t.Error("nobody was woken")
				return
			}
			if got, _ := r.Next(9); words(got) != "run-1" {
				t.Errorf("got %q", words(got))
			}
		})
	}
	l.Add(Event{Type: Port})
	done.Wait()
}

// TestManyWriters: under load each reader sees every event once and in order, or is told how many it missed.
func TestManyWriters(t *testing.T) {
	const writers, each = 4, 2000
	l := New("run", 64)
	r, err := l.Follow("")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for range writers {
		done.Go(func() {
			for range each {
				l.Add(Event{Type: Config})
			}
		})
	}
	seen, last := uint64(0), uint64(0)
	deadline := time.After(pace.Stretch(20 * time.Second))
	for seen < writers*each {
		list, more := r.Next(7)
		for _, e := range list {
			if e.Type == Lost {
				seen, last = seen+e.Count, last+e.Count
				continue
			}
			seen, last = seen+1, last+1
			if want := l.id(last); e.ID != want {
				t.Fatalf("event %s, want %s", e.ID, want)
			}
		}
		if more != nil && seen < writers*each {
			select {
			case <-more:
			case <-deadline:
				t.Fatalf("%d events after 20 s, want %d", seen, writers*each)
			}
		}
	}
	done.Wait()
	if l.Total() != writers*each {
		t.Errorf("%d events in all, want %d", l.Total(), writers*each)
	}
}

// TestConcerns: an event is found by every cube that it names, also by those that it only knows.
func TestConcerns(t *testing.T) {
	e := Event{Type: Config, Cube: "a", Cubes: []string{"b"}, Changes: []Change{{Cube: "c"}}}
	e.About([]string{"d"})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if got, want := e.Concerns(name), slices.Contains([]string{"a", "b", "c", "d"}, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestEventsAreBounded: of what is longer than anybody reads, a part is kept; an event of very many cubes is about all.
func TestEventsAreBounded(t *testing.T) {
	l := New("run", 0)
	long := strings.Repeat("ä", 5000)
	e := Event{Type: Config, Message: long, Reason: long, Origins: []Origin{{Who: long, From: long, What: long}},
		Changes: []Change{{Cube: "c", Paths: []string{long}}}}
	e.About(make([]string, 10000))
	l.Add(e)
	r, err := l.Follow("run-0")
	if err != nil {
		t.Fatal(err)
	}
	list, _ := r.Next(1)
	raw, err := json.Marshal(list[0])
	if err != nil || len(raw) > 7*(maxText+10) || !utf8.Valid(raw) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if !list[0].Concerns("any") || list[0].about != nil {
		t.Error("it is not about all")
	}
}

// TestNobodyKeeps: a nil log takes events and forgets them.
func TestNobodyKeeps(t *testing.T) {
	var l *Log
	l.Add(Event{})
	if l.Total() != 0 {
		t.Error("a nil log counts")
	}
}
