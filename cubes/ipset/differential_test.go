// SPDX-License-Identifier: Apache-2.0

package ipset_test

// Random rules and sets through whole cubes, against the rules one after the other in Go.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
)

// randomAddress is one of few, so that packets are in sets.
func randomAddress(rng *rand.Rand, six bool) netip.Addr {
	if six {
		b := netip.MustParseAddr("2001:db8::").As16()
		b[5], b[7], b[15] = byte(rng.IntN(4)), byte(rng.IntN(4))<<4, byte(rng.IntN(16))
		return netip.AddrFrom16(b)
	}
	return netip.AddrFrom4([4]byte{10, byte(rng.IntN(4)), byte(rng.IntN(4)) << 5, byte(rng.IntN(16))})
}

func randomPrefix(rng *rand.Rand) netip.Prefix {
	six := rng.IntN(3) == 0
	lengths := []int{6, 14, 15, 16, 18, 20, 24, 29, 30, 31, 32}
	if six {
		lengths = []int{30, 46, 47, 48, 52, 60, 61, 62, 124, 125, 126, 127, 128}
	}
	return netip.PrefixFrom(randomAddress(rng, six), lengths[rng.IntN(len(lengths))]).Masked()
}

// world are sets and the rules of forwarders, as the cubes should have them.
type world struct {
	rng   *rand.Rand
	sets  map[string]map[netip.Prefix]bool
	rules []map[int]classifier.Match // by forwarder
}

const (
	forwarders = 2
	setNames   = 6
)

func (w *world) contains(set string, a netip.Addr) bool {
	for p := range w.sets[set] {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// rule is a random rule, in the form of the API and of package classifier.
func (w *world) rule(id int) (string, classifier.Match) {
	var m classifier.Match
	body := map[string]any{"id": id}
	conditions(w.rng, body, &m)
	if w.rng.IntN(2) == 0 {
		not := map[string]any{}
		for range 1 + w.rng.IntN(2) {
			one, e := map[string]any{}, classifier.Match{}
			for len(one) != 1 { // each negated field is an exception of its own
				one, e = map[string]any{}, classifier.Match{}
				conditions(w.rng, one, &e)
			}
			for name, value := range one {
				if not[name] != nil {
					continue
				}
				if m.Except(e) == nil {
					not[name] = value
				}
			}
		}
		if len(not) > 0 {
			body["not"] = not
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return string(text), m
}

// conditions adds some.
func conditions(rng *rand.Rand, body map[string]any, m *classifier.Match) {
	set := func(name string, value any, err error) {
		if err != nil {
			panic(err)
		}
		body[name] = value
	}
	if rng.IntN(2) == 0 {
		name := fmt.Sprintf("s%d", rng.IntN(setNames))
		set("src_set", name, m.SourceSet(name))
	}
	if rng.IntN(3) == 0 {
		name := fmt.Sprintf("s%d", rng.IntN(setNames))
		set("dst_set", name, m.DestinationSet(name))
	}
	if rng.IntN(4) == 0 {
		p := randomPrefix(rng)
		set("src_ip", p.String(), m.Source(p))
	}
	if rng.IntN(3) == 0 {
		port := uint16(rng.IntN(4))
		set("dst_port", port, m.DestinationPorts(port, port))
	}
}

// see returns the rule of a forwarder that a frame matches; -1: none.
func (w *world) see(forwarder int, frame []byte) int {
	k, _ := classifier.KeyOf(frame, 0, 0)
	best := -1
	for id, m := range w.rules[forwarder] {
		if (best < 0 || id < best) && m.MatchesIn(&k, w.contains) {
			best = id
		}
	}
	return best
}

func (w *world) frame() []byte {
	six := w.rng.IntN(3) == 0
	return frameTo(randomAddress(w.rng, six).String(), randomAddress(w.rng, six).String(), uint16(w.rng.IntN(4)))
}

func TestCubesDecideWhatALinearSearchDecides(t *testing.T) {
	seed := repeat.Seed(t)
	bpftest.Each(t, bpftest.Options{Hosts: forwarders}, func(t *testing.T, l *bpftest.Lab) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 1)), sets: map[string]map[netip.Prefix]bool{}}
		for f := range forwarders {
			w.rules = append(w.rules, map[int]classifier.Match{})
			forwarder(l, fmt.Sprintf("f%d", f), []int{f + 1})
		}
		counts := [forwarders]map[int]uint64{{}, {}}
		next := 0
		for range 8 {
			for range 1 + w.rng.IntN(4) {
				w.changeSet(l)
			}
			for f := range forwarders {
				next = w.changeRules(l, f, next)
			}
			for range 40 {
				f := w.rng.IntN(forwarders)
				frame := w.frame()
				counts[f][w.see(f, frame)]++
				l.Flood(fmt.Sprintf("veth%d", f+1), frame, 1)
			}
			if w.rng.IntN(6) == 0 {
				l.Restart(func() {})
			}
			for f := range forwarders {
				w.compare(t, l, f, counts[f])
			}
		}
	})
}

// changeSet creates a set, deletes it, or changes some of its prefixes or all.
func (w *world) changeSet(l *bpftest.Lab) {
	name := fmt.Sprintf("s%d", w.rng.IntN(setNames))
	fresh := map[netip.Prefix]bool{}
	var bodies []string
	for range w.rng.IntN(12) {
		p := randomPrefix(w.rng)
		if !fresh[p] {
			bodies = append(bodies, fmt.Sprintf(`{"prefix":%q}`, p))
		}
		fresh[p] = true
	}
	list := "[" + strings.Join(bodies, ",") + "]"
	switch is := w.sets[name]; {
	case is == nil:
		l.Create("ipset", name, `{"prefixes":`+list+`}`)
		w.sets[name] = fresh
	case w.rng.IntN(6) == 0:
		l.Set("DELETE", name, "")
		delete(w.sets, name)
	case w.rng.IntN(3) == 0:
		l.Set("PUT", name+" prefixes", list)
		w.sets[name] = fresh
	default:
		for p := range fresh {
			if is[p] {
				l.Set("DELETE", fmt.Sprintf("%s prefixes %s", name, p), "")
				delete(is, p)
			} else {
				l.Set("POST", fmt.Sprintf("%s prefixes %s", name, p), "")
				is[p] = true
			}
		}
	}
}

// changeRules replaces some rules of a forwarder, all with new ids from next on, so that counters are new.
func (w *world) changeRules(l *bpftest.Lab, f, next int) int {
	for id := range w.rules[f] {
		if w.rng.IntN(3) == 0 {
			l.Set("DELETE", fmt.Sprintf("f%d rules %d", f, id), "")
			delete(w.rules[f], id)
		}
	}
	for len(w.rules[f]) < 25 {
		text, m := w.rule(next)
		l.Set("PUT", fmt.Sprintf("f%d rules %d", f, next), text)
		w.rules[f][next] = m
		next++
	}
	return next
}

// compare compares the counters of a forwarder.
func (w *world) compare(t *testing.T, l *bpftest.Lab, f int, counts map[int]uint64) {
	t.Helper()
	var rules []struct {
		ID      int    `json:"id"`
		Packets uint64 `json:"packets"`
	}
	if err := json.Unmarshal([]byte(l.Read(fmt.Sprintf("f%d rules", f))), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules) != len(w.rules[f]) {
		t.Errorf("f%d has %d rules, want %d", f, len(rules), len(w.rules[f]))
	}
	for _, r := range rules {
		if r.Packets != counts[r.ID] {
			t.Errorf("rule %d of f%d has %d packets, want %d", r.ID, f, r.Packets, counts[r.ID])
		}
	}
	if got := l.Fates(fmt.Sprintf("f%d", f))["no-rule"]; got != counts[-1] {
		t.Errorf("%d packets matched no rule of f%d, want %d", got, f, counts[-1])
	}
}
